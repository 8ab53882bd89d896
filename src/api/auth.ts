import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { ApiKeys, Principal, Scope } from '../accounts/index.ts'
import { ApiError } from '../errors.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** Null only on the paths that need no key. */
    principal: Principal | null
  }
  interface FastifyContextConfig {
    /** What the key must be allowed to do. */
    scope?: Scope
  }
}

/** Paths that answer without a key; they tell nothing of anyone. */
export const OPEN_PATHS = { live: '/healthz', ready: '/readyz', openApi: '/openapi.json' } as const

/** Every request shows a key before anything else of it is looked at, on unknown paths too. */
export function requireApiKey(app: FastifyInstance, keys: ApiKeys): void {
  const open = new Set<string | undefined>(Object.values(OPEN_PATHS))
  app.decorateRequest('principal', null)
  app.addHook('onRequest', async (request, reply) => {
    if (open.has(request.routeOptions.url)) return
    const key = bearerKey(request.headers.authorization)
    request.principal = key === null ? null : await keys.authenticate(key)
    if (!request.principal) {
      reply.header('www-authenticate', 'Bearer')
      throw invalidKey(request)
    }
    const { scope } = request.routeOptions.config
    if (scope && !request.principal.scopes.has(scope)) throw outOfScope(scope)
  })
}

/** The same for a key that is missing, malformed, unknown, revoked or expired: nobody learns which keys there have been. */
function invalidKey(request: FastifyRequest): ApiError {
  // The contract's sample for detect has a code where those of the other endpoints have none.
  const code = request.routeOptions.url === '/v1/detect' ? 'authentication_error' : null
  return new ApiError('Invalid API key', { status: 401, type: 'authentication_error', code })
}

function outOfScope(scope: Scope): ApiError {
  return new ApiError(`The API key has not the scope '${scope}'`, {
    status: 403,
    type: 'invalid_request_error',
    code: 'insufficient_scope',
  })
}

/** Who a request behind the key is made for. */
export function principalOf(request: FastifyRequest): Principal {
  if (!request.principal) throw new Error(`${request.routeOptions.url} is reached without a key`)
  return request.principal
}

function bearerKey(header: string | undefined): string | null {
  return /^bearer +(\S+) *$/i.exec(header ?? '')?.[1] ?? null
}
