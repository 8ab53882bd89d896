import type { ServerResponse } from 'node:http'
import { setTimeout as delay } from 'node:timers/promises'
import type { FastifyInstance } from 'fastify'
import { modelOverloaded } from '../../lib/errors.ts'

/** Seconds after which a client that was refused may find the service started again, or another in its place. */
const RETRY_SECONDS = 5
const SWEEP_MS = 50
/** Time to send the error that ends an answer; a reader that takes longer misses it. */
const LAST_WORDS_MS = 1_000

/** The steps in which a service ends: no new requests; then, when answers under way have ended, no connections. */
export class GracefulShutdown {
  readonly #draining = new AbortController()
  readonly #shutdown = new AbortController()
  /** Answers under way, each in a place of its own until it has ended. */
  readonly #underWay: (ServerResponse | null)[] = []
  readonly #freePlaces: number[] = []
  #drained = Promise.withResolvers<void>()

  /** Fires when no new requests are taken. */
  get draining(): AbortSignal {
    return this.#draining.signal
  }

  /** Fires when answers under way are waited for no longer. */
  get shutdown(): AbortSignal {
    return this.#shutdown.signal
  }

  get #count(): number {
    return this.#underWay.length - this.#freePlaces.length
  }

  /** Counts the requests that are accepted, and refuses others while draining. Hooked in behind the check of keys. */
  takeCareOf(app: FastifyInstance): void {
    app.addHook('onRequest', (request, reply, done) => {
      if (this.draining.aborted) {
        reply.header('connection', 'close')
        return done(request.principal ? closingDown() : undefined)
      }
      if (!request.principal) return done()
      const { raw } = reply
      // No set: each table that one has grown out of points to the next, and with its old answers keeps that alive. Where
      // the collector had moved one such table out of the young generation, it spent much of the time on all that followed.
      const place = this.#freePlaces.pop() ?? this.#underWay.length
      this.#underWay[place] = raw
      raw.on('close', () => {
        this.#underWay[place] = null
        this.#freePlaces.push(place)
        if (this.#count === 0) this.#drained.resolve()
      })
      done()
    })
  }

  /**
   * Refuses new requests and lets accepted ones end, for at most `graceMs`; then ends them, and the server. It listens
   * until then, so that clients and load balancers are told rather than cut off.
   */
  async close(app: FastifyInstance, graceMs: number): Promise<void> {
    this.#drained = Promise.withResolvers()
    this.#draining.abort()
    // A request that comes over the same connection later would find it closed.
    for (const raw of this.#underWay) if (raw?.headersSent === false) raw.setHeader('connection', 'close')
    if (this.#count > 0 && !(await endsWithin(this.#drained.promise, graceMs))) {
      this.#shutdown.abort(closingDown())
    }
    // Connections that clients keep for later would hold the server open: each is closed once its answer is out.
    const sweep = setInterval(() => app.server.closeIdleConnections(), SWEEP_MS)
    try {
      const closed = app.close()
      if (await endsWithin(closed, LAST_WORDS_MS)) return
      app.server.closeAllConnections()
      await closed
    } finally {
      clearInterval(sweep)
    }
  }
}

function closingDown(): Error {
  return modelOverloaded('The server is shutting down', RETRY_SECONDS)
}

async function endsWithin(work: PromiseLike<unknown>, milliseconds: number): Promise<boolean> {
  const waiting = new AbortController()
  const late = delay(milliseconds, false, { signal: waiting.signal })
  try {
    return await Promise.race([work.then(() => true), late])
  } finally {
    waiting.abort()
    late.catch(() => {})
  }
}
