import type { ServerResponse } from 'node:http'
import type { FastifyInstance } from 'fastify'
import { type ApiError, modelOverloaded } from '../../../lib/errors/errors.ts'
import { withTimeout } from '../../../lib/with-timeout.ts'

/** By then, the service may have restarted or another instance may have taken over. */
const RETRY_SECONDS = 5
const SWEEP_MS = 50
/** Time to send the errors that end active responses; slower clients miss them. */
export const FINAL_SEND_MS = 1_000

/** Shuts the server down in two steps: reject new requests; once active responses have ended, close connections. */
export class GracefulShutdown {
  readonly #draining = new AbortController()
  /** Fires when new requests are no longer accepted. */
  readonly draining = this.#draining.signal
  readonly #shutdown = new AbortController()
  /** Fires when active requests must be aborted. */
  readonly shutdown = this.#shutdown.signal
  /** Active responses, each in a slot of its own until it closes. */
  readonly #active: (ServerResponse | null)[] = []
  readonly #freeSlots: number[] = []
  #drained = Promise.withResolvers<void>()

  get #count(): number {
    return this.#active.length - this.#freeSlots.length
  }

  /** Tracks accepted requests, and rejects new ones while draining. Register it after authentication. */
  track(app: FastifyInstance): void {
    app.addHook('onRequest', (request, reply, done) => {
      if (this.draining.aborted) {
        reply.header('connection', 'close')
        return done(request.principal ? shuttingDown() : undefined)
      }
      if (!request.principal) return done()
      const { raw } = reply
      // Not a Set: as one grows, V8 links each outgrown table to the next. Once such a table, with its old responses,
      // had moved to the old generation, it kept all later tables alive and slowed down garbage collection.
      const slot = this.#freeSlots.pop() ?? this.#active.length
      this.#active[slot] = raw
      raw.on('close', () => {
        this.#active[slot] = null
        this.#freeSlots.push(slot)
        if (this.#count === 0) this.#drained.resolve()
      })
      done()
    })
  }

  /**
   * Rejects new requests and lets accepted ones finish for at most `graceMs`, then aborts them and closes the server.
   * The server listens until then, so that clients and load balancers get a 503 and no connection error.
   */
  async close(app: FastifyInstance, graceMs: number): Promise<void> {
    this.#drained = Promise.withResolvers()
    this.#draining.abort()
    // These connections close after their response; clients must not send another request over them.
    for (const raw of this.#active) if (raw?.headersSent === false) raw.setHeader('connection', 'close')
    if (this.#count > 0 && !(await endsWithin(this.#drained.promise, graceMs))) {
      this.#shutdown.abort(shuttingDown())
    }
    // Idle keep-alive connections would hold the server open, so each is closed after its response.
    const sweep = setInterval(() => app.server.closeIdleConnections(), SWEEP_MS)
    try {
      const closed = app.close()
      if (await endsWithin(closed, FINAL_SEND_MS)) return
      app.server.closeAllConnections()
      await closed
    } finally {
      clearInterval(sweep)
    }
  }
}

export function shuttingDown(): ApiError {
  return modelOverloaded('The server is shutting down', RETRY_SECONDS)
}

function endsWithin(work: PromiseLike<unknown>, milliseconds: number): Promise<boolean> {
  return withTimeout(
    milliseconds,
    work.then(() => true),
    false,
  )
}
