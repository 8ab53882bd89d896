import { AsyncLocalStorage } from 'node:async_hooks'
import type { FastifyInstance } from 'fastify'
import type { LineCall } from '../../../batches/line-runner.ts'
import type { LineResponse } from '../../../batches/output-writer.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The line of a batch that the request stands for; null for a client's request. */
    line: LineCall | null
  }
}

/**
 * Answers the lines of batches as requests: with the same handlers, checks and metering, but without a connection. The
 * async context identifies a line, so no client can send a request that passes for one.
 */
export class LineRequests {
  readonly #calls = new AsyncLocalStorage<LineCall>()
  #app: FastifyInstance | null = null

  /** Registers the hook. Call it before all other hooks. */
  track(app: FastifyInstance): void {
    this.#app = app
    app.decorateRequest('line', null)
    app.addHook('onRequest', (request, { raw: response }, done) => {
      const line = this.#calls.getStore()
      if (line === undefined) return done()
      request.line = line
      // The request is complete, as if it had arrived.
      request.raw.complete = true
      // The response has no connection to wait for.
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
