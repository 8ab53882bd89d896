import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { ApiKeys, Principal, Scope } from '../../accounts/index.ts'
import { ApiError } from '../../lib/errors.ts'

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
export const OPEN_PATHS = { root: '/', live: '/healthz', ready: '/readyz', openApi: '/openapi.json' } as const

/** Every request shows a key before anything else of it is looked at, on unknown paths too. */
export function requireApiKey(app: FastifyInstance, keys: ApiKeys): void {
  const open = new Set<string | undefined>(Object.values(OPEN_PATHS))
  app.decorateRequest('principal', null)
  // Without promises where the key is known: this is most of what a small request costs.
  app.addHook('onRequest', (request, reply, done) => {
    if (open.has(request.routeOptions.url)) return done()
    const key = bearerKey(request.headers.authorization)
    const principal = key === null ? null : keys.authenticate(key, request.socket.remoteAddress ?? '')
    if (!(principal instanceof Promise)) return done(admit(request, reply, principal))
    principal.then(
      (found) => done(admit(request, reply, found)),
      (error: Error) => done(error),
    )
  })
}

/** @returns why the request is not let in. */
function admit(request: FastifyRequest, reply: FastifyReply, principal: Principal | null): ApiError | undefined {
  request.principal = principal
  if (principal === null) {
    reply.header('www-authenticate', 'Bearer')
    return invalidKey(request)
  }
  const { scope } = request.routeOptions.config
  return scope && !principal.scopes.has(scope) ? outOfScope(scope) : undefined
}

/** The same for a key that is missing, malformed, unknown, revoked or expired: nobody learns which keys there have been. */
function invalidKey(request: FastifyRequest): ApiError {
  // The contract's sample for detect has a code where those of the other endpoints have none.
  const code = request.routeOptions.url === '/v1/detect' ? 'authentication_error' : null
  return new ApiError('Invalid API key', { status: 401, type: 'authentication_error', code })
}

function outOfScope(scope: Scope): ApiError {
  return new ApiError(`The API key does not have the scope '${scope}'`, {
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
