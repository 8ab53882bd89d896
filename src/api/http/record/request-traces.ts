import type { FastifyInstance } from 'fastify'
import type { RequestTrace } from '../../../tracing/request-trace.ts'
import type { Tracing } from '../../../tracing/tracing.ts'
import { pathOf } from '../error-handler.ts'
import { clientRequestId } from './request-log.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** Null if the request is not traced. */
    trace: RequestTrace | null
  }
}

/**
 * Traces requests with a valid key and an existing path, so that strangers cannot fill the collector. Register it after
 * authentication.
 */
export function traceRequests(app: FastifyInstance, tracing: Pick<Tracing, 'begin'> | null): void {
  app.decorateRequest('trace', null)
  if (tracing === null) return
  app.addHook('onRequest', (request, reply, done) => {
    const { principal, routeOptions } = request
    const route = routeOptions.url
    if (principal === null || route === undefined) return done()
    const trace = tracing.begin({
      id: request.id,
      clientId: clientRequestId(request),
      method: request.method,
      route,
      path: pathOf(request),
      httpVersion: request.raw.httpVersion,
      organisation: principal.organisation,
      headers: request.headers,
    })
    request.trace = trace
    const { raw } = reply
    // Other listeners for the end still add to the trace.
    raw.once('close', () => queueMicrotask(() => trace.end(raw.statusCode, raw.writableFinished)))
    done()
  })
}
