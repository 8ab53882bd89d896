import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { MeasuredRequest } from '../metrics/metrics.ts'
import type { ModelRegistry } from '../models/registry.ts'
import { CLIENT_GONE } from './lifetime.ts'

/** Takes the measures of requests. */
export interface RequestMeter {
  requestStarted(): void
  requestEnded(request: MeasuredRequest): void
}

declare module 'fastify' {
  interface FastifyRequest {
    /** Id of the model that the request was let in to. */
    servedModel: string | null
  }
}

/** Measures every request. Labels are bounded: paths that are none, and models that are none, are each one. */
export function measureRequests(app: FastifyInstance, registry: ModelRegistry, meter: RequestMeter): void {
  app.addHook('onRequest', (request, reply, done) => {
    const start = performance.now()
    meter.requestStarted()
    const { raw } = reply
    raw.once('close', () => {
      meter.requestEnded({
        endpoint: request.is404 ? 'unknown' : (request.routeOptions.url ?? 'unknown'),
        method: request.method,
        status: raw.writableFinished ? raw.statusCode : CLIENT_GONE,
        model: request.servedModel ?? modelOf(request, registry),
        ms: performance.now() - start,
      })
    })
    done()
  })
}

function modelOf({ body }: FastifyRequest, registry: ModelRegistry): string {
  if (typeof body !== 'object' || body === null || !('model' in body) || typeof body.model !== 'string') return ''
  return registry.find(body.model)?.id ?? ''
}
