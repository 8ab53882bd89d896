import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { ApiKeys, Principal } from '../accounts/index.ts'
import { ApiError } from '../errors.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** Null only on the paths that need no key. */
    principal: Principal | null
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
    if (request.principal) return
    reply.header('www-authenticate', 'Bearer')
    // The contract's sample for detect has a code where those of the other endpoints have none.
    const code = request.routeOptions.url === '/v1/detect' ? 'authentication_error' : null
    throw new ApiError('Invalid API key', { status: 401, type: 'authentication_error', code })
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
