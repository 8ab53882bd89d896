import type { FastifyContextConfig, FastifyInstance, FastifyRequest, HTTPMethods, RouteHandlerMethod } from 'fastify'
import type { Scope } from '../../accounts/api-key.ts'
import type { Bucket } from '../../config/rate-limits.ts'
import { invalidRequest } from '../../lib/errors/errors.ts'
import type { Convention } from './conventions.ts'
import { notFound } from './error-handler.ts'

type Method = 'GET' | 'POST' | 'PATCH' | 'DELETE'

export interface Endpoint {
  readonly url: string
  /** The scope that the key must have, for all methods or for the named ones. By default any key suffices. */
  readonly scope?: Scope | Readonly<Partial<Record<Method, Scope>>>
  /** The rate limit that requests count towards: one for all methods, or one per counted method. */
  readonly bucket?: Bucket | Readonly<Partial<Record<Method, Bucket>>>
  /** See `body-guard.ts`. */
  readonly body?: Pick<FastifyContextConfig, 'ownBodyTimeout' | 'zstd'>
  /** See `auth.ts`. */
  readonly keyHeader?: FastifyContextConfig['keyHeader']
  /** See `auth.ts`. */
  readonly keyless?: FastifyContextConfig['keyless']
  /** The convention whose requests it answers; others get the endpoint of the same path that has none. */
  readonly convention?: Convention
  /**
   * Whether an endpoint with a path parameter also matches the path. It then handles the methods without a handler here, so
   * that an object of this name can still be deleted.
   */
  readonly isBesideParameter?: boolean
  readonly handlers: Readonly<Partial<Record<Method, RouteHandlerMethod>>>
}

const METHODS: readonly HTTPMethods[] = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']

/** Adds an endpoint with all its methods; any other method gets 405. */
export function addEndpoint(
  app: FastifyInstance,
  { url, scope: scopes, bucket: buckets, body, keyHeader, keyless, convention, isBesideParameter, handlers }: Endpoint,
): void {
  const constraints = convention === undefined ? {} : { constraints: { convention } }
  const shared = { ...(keyHeader && { keyHeader }), ...(keyless && { keyless }), ...body }
  for (const [name, handler] of Object.entries(handlers)) {
    const method = name as Method
    const bucket = typeof buckets === 'object' ? buckets[method] : buckets
    const scope = typeof scopes === 'object' ? scopes[method] : scopes
    const config = { ...(bucket && { bucket }), ...(scope && { scope }), ...shared }
    app.route({ method, url, ...constraints, handler, config })
  }
  if (isBesideParameter) return
  const allowed = METHODS.filter((method) => method in handlers || (method === 'HEAD' && 'GET' in handlers))
  const reject = async () => {
    throw invalidRequest(`Method not allowed; use ${allowed.join(', ')}`, null, { status: 405 })
  }
  app.route({
    method: METHODS.filter((method) => !allowed.includes(method)),
    url,
    ...constraints,
    config: shared,
    // Rejected after the key check and before reading the body.
    onRequest: async (_request, reply) => {
      reply.header('allow', allowed.join(', '))
      await reject()
    },
    handler: reject,
  })
}

/** Answers the paths of a pattern that no endpoint has, so that their 404 has the shape of the scope, and so has their 401. */
export function addUnknown(
  app: FastifyInstance,
  { url, convention, ...config }: Pick<Endpoint, 'url' | 'convention' | 'keyHeader' | 'keyless'>,
): void {
  const constraints = convention === undefined ? {} : { constraints: { convention } }
  // Before reading the body.
  const onRequest = async (request: FastifyRequest) => notFound(request)
  app.route({ method: [...METHODS], url, ...constraints, config, onRequest, handler: onRequest })
}
