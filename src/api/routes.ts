import type { FastifyInstance, HTTPMethods, RouteHandlerMethod } from 'fastify'
import type { Bucket } from '../accounts/index.ts'
import { ApiError } from '../errors.ts'

type Method = 'GET' | 'POST' | 'DELETE'

export interface Endpoint {
  readonly url: string
  readonly bucket?: Bucket
  readonly handlers: Readonly<Partial<Record<Method, RouteHandlerMethod>>>
}

const METHODS: readonly HTTPMethods[] = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']

/** Adds an endpoint with all its methods; any other method is answered with 405. */
export function addEndpoint(app: FastifyInstance, { url, bucket, handlers }: Endpoint): void {
  for (const [method, handler] of Object.entries(handlers)) {
    app.route({ method: method as Method, url, handler, config: bucket ? { bucket } : {} })
  }
  const allowed = METHODS.filter((method) => method in handlers || (method === 'HEAD' && 'GET' in handlers))
  const refuse = async () => {
    throw new ApiError(`Method not allowed; use ${allowed.join(', ')}`, {
      status: 405,
      type: 'invalid_request_error',
    })
  }
  app.route({
    method: METHODS.filter((method) => !allowed.includes(method)),
    url,
    // Refused before a body is read, and after the key is checked.
    onRequest: async (_request, reply) => {
      reply.header('allow', allowed.join(', '))
      await refuse()
    },
    handler: refuse,
  })
}
