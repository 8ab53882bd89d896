import { setTimeout as delay } from 'node:timers/promises'
import type { FastifyInstance } from 'fastify'
import { modelOverloaded } from '../errors.ts'

/** The two steps in which a service ends. */
export class Closing {
  readonly #draining = new AbortController()
  readonly #shutdown = new AbortController()

  /** Fires when no new requests are taken. */
  get draining(): AbortSignal {
    return this.#draining.signal
  }

  /** Fires when answers under way are waited for no longer. */
  get shutdown(): AbortSignal {
    return this.#shutdown.signal
  }

  /** Stops listening, lets answers under way end for `graceMs`, then ends them. */
  async close(app: FastifyInstance, graceMs: number): Promise<void> {
    this.#draining.abort()
    // Connections that clients keep for later would hold the server open: each is closed once its answer is out.
    const sweep = setInterval(() => app.server.closeIdleConnections(), SWEEP_MS)
    try {
      const closed = app.close()
      if (await endsWithin(closed, graceMs)) return
      this.#shutdown.abort(modelOverloaded('The server is shutting down', 5))
      if (await endsWithin(closed, LAST_WORDS_MS)) return
      app.server.closeAllConnections()
      await closed
    } finally {
      clearInterval(sweep)
    }
  }
}

const SWEEP_MS = 50
/** Time to send the error that ends an answer; a reader that takes longer misses it. */
const LAST_WORDS_MS = 1_000

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
