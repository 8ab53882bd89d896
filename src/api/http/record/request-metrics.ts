import type { FastifyInstance } from 'fastify'
import type { MeasuredRequest } from '../../../metrics/metrics.ts'
import { CLIENT_CLOSED_REQUEST } from '../connection/abort-signal.ts'

/** Receives the measurements of requests. */
export interface RequestMeter {
  requestStarted(): void
  requestEnded(request: MeasuredRequest): void
}

declare module 'fastify' {
  interface FastifyRequest {
    /** Id of the model that the request was admitted to. */
    servedModel: string | null
  }
}

/** Measures every request. Labels are bounded: unknown paths share a few, and the model is empty when there is none. */
export function measureRequests(app: FastifyInstance, meter: RequestMeter): void {
  app.addHook('onRequest', (request, reply, done) => {
    const start = performance.now()
    meter.requestStarted()
    const { raw } = reply
    raw.once('close', () => {
      meter.requestEnded({
        endpoint: request.is404 ? 'unknown' : (request.routeOptions.url ?? 'unknown'),
        method: request.method,
        status: raw.writableFinished ? raw.statusCode : CLIENT_CLOSED_REQUEST,
        model: request.servedModel ?? '',
        ms: performance.now() - start,
      })
    })
    done()
  })
}
