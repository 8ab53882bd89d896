import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Scope } from '../../../accounts/api-key.ts'
import type { ApiKeys } from '../../../accounts/authenticator.ts'
import type { Principal } from '../../../accounts/principal.ts'
import { ApiError, invalidRequest } from '../../../lib/errors/errors.ts'
import { obstacleOf } from './local-request.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** Null only on paths that need no key. */
    principal: Principal | null
  }
  interface FastifyContextConfig {
    /** The scope that the key must have. */
    scope?: Scope
    /** A header in which clients may send the key, besides `Authorization`. */
    keyHeader?: keyof typeof KEY_HEADERS
    /** Requests from this machine need no key. */
    keyless?: true
  }
}

/**
 * How keys are written in headers other than `Authorization`. The subprotocol is the only header of a WebSocket that a
 * page can set.
 */
const KEY_HEADERS = {
  'x-api-key': /^(\S+)$/,
  'sec-websocket-protocol': /(?:^|,) *api-key\.([^\s,]+)/,
} as const

/** Paths that need no key. Their responses contain nothing about any organisation. */
export const OPEN_PATHS = {
  root: '/',
  live: '/healthz',
  ready: '/readyz',
  openApi: '/openapi.json',
  studio: '/studio',
  studioFiles: '/studio/*',
  reference: '/docs',
  referenceFiles: '/docs/*',
} as const

/** Checks the API key before anything else in a request, on unknown paths too. */
export function requireApiKey(app: FastifyInstance, keys: ApiKeys): void {
  const open = new Set<string | undefined>(Object.values(OPEN_PATHS))
  app.decorateRequest('principal', null)
  // With a cached key, no promises: this check is most of the cost of a small request.
  app.addHook('onRequest', (request, reply, done) => {
    if (open.has(request.routeOptions.url)) return done()
    const key = keyOf(request)
    const isKeyless = key === null && request.routeOptions.config.keyless === true
    const refusal = isKeyless ? refusalOf(request) : null
    if (refusal !== null) return done(refusal)
    const principal = isKeyless ? keys.keyless() : ownerOf(request, keys)
    if (!(principal instanceof Promise)) return done(admit(request, reply, principal))
    principal.then(
      (found) => done(admit(request, reply, found)),
      (error: Error) => done(error),
    )
  })
}

/** Returns the owner of a request's key; null without a valid key. */
export function ownerOf(request: FastifyRequest, keys: ApiKeys): ReturnType<ApiKeys['authenticate']> {
  const key = keyOf(request)
  return key === null ? null : keys.authenticate(key, request.socket.remoteAddress ?? '')
}

function keyOf(request: FastifyRequest): string | null {
  return bearerKey(request.headers.authorization) ?? otherKey(request)
}

/** Why a request without a key is not served from a keyless endpoint; null if it is. */
function refusalOf(request: FastifyRequest): ApiError | null {
  const obstacle = obstacleOf(request)
  if (obstacle === null) return null
  return new ApiError(`Without a key, only requests from this machine are answered, and ${obstacle}`, {
    status: 401,
    type: 'authentication_error',
  })
}

/** @returns the error to reject the request with, if any. */
function admit(request: FastifyRequest, reply: FastifyReply, principal: Principal | null): ApiError | undefined {
  request.principal = principal
  if (principal === null) reply.header('www-authenticate', 'Bearer')
  const { url, config } = request.routeOptions
  return accessError(principal, { url, scope: config.scope, keyless: config.keyless })
}

interface Accessed {
  readonly url: string | undefined
  readonly scope: Scope | undefined
  readonly keyless?: true | undefined
}

/**
 * Returns why a key may not use an endpoint; undefined if it may.
 * @param principal null for a key that is not valid.
 */
export function accessError(principal: Principal | null, { url, scope, keyless }: Accessed): ApiError | undefined {
  if (principal === null) return invalidKey(url, keyless)
  return scope && !principal.scopes.has(scope) ? outOfScope(scope) : undefined
}

/** @throws ApiError 403 when a key lacks the scope that a part of a request needs. */
export function requireScope({ scopes }: Principal, scope: Scope): void {
  if (!scopes.has(scope)) throw outOfScope(scope)
}

/** One error for missing, malformed, unknown, revoked and expired keys: it must not reveal which keys exist. */
function invalidKey(url: string | undefined, keyless = false): ApiError {
  // The contract's example for detect has a code; those for the other endpoints have none.
  const code = url === '/v1/detect' ? 'authentication_error' : null
  // Clients whose field for a key must not be empty send any word.
  const advice = keyless ? '; leave it out, or send a key of this server' : ''
  return new ApiError(`Invalid API key${advice}`, { status: 401, type: 'authentication_error', code })
}

function outOfScope(scope: Scope): ApiError {
  const denied = { status: 403, code: 'insufficient_scope' } as const
  return invalidRequest(`The API key does not have the scope '${scope}'`, null, denied)
}

/** Returns the principal of a request that has passed `requireApiKey`. */
export function principalOf(request: FastifyRequest): Principal {
  if (!request.principal) throw new Error(`${request.routeOptions.url} was reached without a key`)
  return request.principal
}

function otherKey({ headers, routeOptions }: FastifyRequest): string | null {
  const { keyHeader } = routeOptions.config
  if (keyHeader === undefined) return null
  const given = headers[keyHeader]
  return typeof given === 'string' ? (KEY_HEADERS[keyHeader].exec(given)?.[1] ?? null) : null
}

function bearerKey(header: string | undefined): string | null {
  return /^bearer +(\S+) *$/i.exec(header ?? '')?.[1] ?? null
}
