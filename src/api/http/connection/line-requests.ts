import { AsyncLocalStorage } from 'node:async_hooks'
import type { FastifyInstance } from 'fastify'
import type { LineCall } from '../../../batches/line-runner.ts'
import type { LineResponse } from '../../../batches/output-writer.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** Null for a request that a client has sent; otherwise the line of a batch that it is. */
    line: LineCall | null
  }
}

/**
 * Has the lines of batches answered as requests: by the same handlers, with the same checks and metering, and without a
 * connection. A line is known by the context that it is called in, so there is nothing that a client could send to be taken
 * for one.
 */
export class LineRequests {
  readonly #calls = new AsyncLocalStorage<LineCall>()
  #app: FastifyInstance | null = null

  /** Register it before all other hooks. */
  track(app: FastifyInstance): void {
    this.#app = app
    app.decorateRequest('line', null)
    app.addHook('onRequest', (request, { raw: response }, done) => {
      const line = this.#calls.getStore()
      if (line === undefined) return done()
      request.line = line
      // Nothing is still to come of it, as of a request that has arrived.
      request.raw.complete = true
      // The response has no connection that would have to take it.
      response.once('finish', () => Object.defineProperty(response, 'writableFinished', { value: true }))
      const leave = () => response.destroy()
      line.signal.addEventListener('abort', leave, { once: true })
      response.once('close', () => line.signal.removeEventListener('abort', leave))
      done()
    })
  }

  /** @throws Error when the signal fires. */
  async run(call: LineCall): Promise<LineResponse> {
    call.signal.throwIfAborted()
    const headers = { 'content-type': 'application/json' }
    // Awaited within the context: the request begins only then.
    const response = await this.#calls.run(
      call,
      async () => await this.#app!.inject({ method: 'POST', url: call.endpoint, headers, payload: call.body }),
    )
    return { status: response.statusCode, requestId: String(response.headers['x-request-id']), body: response.body }
  }
}
