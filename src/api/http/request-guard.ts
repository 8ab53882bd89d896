import type { FastifyInstance, FastifyRequest } from 'fastify'
import { ApiError, invalidRequest } from '../../lib/errors.ts'

/** Time for a client to send a JSON body. */
const BODY_TIMEOUT_MS = 120_000

export interface HygieneOptions {
  /** Origins whose pages may call from a browser; `*` for all, none for none. */
  readonly corsOrigins: readonly string[]
  /** In place of the usual time for a body. */
  readonly bodyTimeoutMs?: number | undefined
}

/** What every answer says to browsers: it is data, not a page. */
const HEADERS = {
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
}

/** Headers for browsers. To be added before anything that refuses. */
export function keepClean(app: FastifyInstance, { corsOrigins }: HygieneOptions): void {
  app.addHook('onRequest', (_request, reply, done) => {
    reply.headers(HEADERS)
    done()
  })
  if (corsOrigins.length > 0) allowOrigins(app, corsOrigins)
}

/** Refuses bodies that are compressed, and ends requests that come drop by drop. To be added behind the check of keys. */
export function guardBodies(app: FastifyInstance, { bodyTimeoutMs = BODY_TIMEOUT_MS }: HygieneOptions): void {
  app.addHook('onRequest', (request, reply, done) => {
    const { raw, headers } = request
    const hasBody = headers['content-length'] !== undefined || headers['transfer-encoding'] !== undefined
    if (!hasBody) return done()
    done(encodingError(request))
    // Uploads watch over themselves.
    if (raw.complete || headers['content-type']?.startsWith('multipart/')) return
    const timer = setTimeout(() => {
      if (raw.complete || reply.sent) return
      const error = new ApiError('The request did not arrive in time', { status: 408, type: 'invalid_request_error' })
      reply.header('connection', 'close').code(error.status).send(error.toBody())
    }, bodyTimeoutMs)
    const stop = () => clearTimeout(timer)
    raw.once('end', stop)
    reply.raw.once('close', stop)
  })
}

/** A compressed body would else be told to be broken JSON. */
function encodingError({ headers }: FastifyRequest): ApiError | undefined {
  const encoding = headers['content-encoding']
  if (encoding === undefined || encoding.toLowerCase() === 'identity') return undefined
  return invalidRequest(`Content-Encoding '${encoding.slice(0, 50)}' is not supported: send the body as it is`, null, {
    status: 415,
  })
}

/** What a page may send and see beyond what every page may. */
const CORS = {
  'access-control-allow-methods': 'GET, HEAD, POST, DELETE',
  'access-control-max-age': '7200',
}
/** Request headers of clients that do not say which ones they will send. */
const USUAL_HEADERS = 'authorization, content-type, range'
const HEADER_NAMES = /^[\t ]*[\w!#$%&'*+.^`|~-]+(?:[\t ]*,[\t ]*[\w!#$%&'*+.^`|~-]+)*[\t ]*$/
const EXPOSED = [
  ...['x-trace-id', 'x-request-id', 'retry-after', 'retry-after-ms', 'content-range', 'content-disposition'],
  'www-authenticate',
  ...['x-ratelimit-limit-requests', 'x-ratelimit-remaining-requests', 'x-ratelimit-reset-requests'],
].join(', ')

/** Keys come in a header, never by themselves: no credentials are allowed. */
function allowOrigins(app: FastifyInstance, origins: readonly string[]): void {
  const all = origins.includes('*')
  const known = new Set(origins)
  app.addHook('onRequest', async (request, reply) => {
    const { origin } = request.headers
    if (!all) reply.header('vary', 'Origin')
    if (origin === undefined || !(all || known.has(origin))) return
    reply.header('access-control-allow-origin', all ? '*' : origin).header('access-control-expose-headers', EXPOSED)
    // A browser that asks first shows no key yet.
    if (request.method === 'OPTIONS' && request.headers['access-control-request-method'] !== undefined) {
      const vary = all ? REQUESTED : `Origin, ${REQUESTED}`
      const allowed = allowedHeaders(request.headers[REQUESTED])
      await reply
        .headers({ ...CORS, 'access-control-allow-headers': allowed, vary })
        .code(204)
        .send()
    }
  })
}

const REQUESTED = 'access-control-request-headers'

/**
 * Every header that the page wants to send. Clients add headers of their own (OpenAI's has a dozen `x-stainless-*`), the
 * server reads none of them, and no list of ours would keep up. `*` would not do: it does not cover `authorization`.
 */
function allowedHeaders(requested: string | undefined): string {
  return requested !== undefined && HEADER_NAMES.test(requested) ? requested.trim() : USUAL_HEADERS
}
