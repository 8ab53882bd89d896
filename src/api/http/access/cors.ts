import type { FastifyInstance, FastifyRequest } from 'fastify'
import { invalidRequest } from '../../../lib/errors/errors.ts'
import { FINGERPRINT, IGNORED_KEYWORDS, MEDIA_NOTES, WARNING } from '../record/response-notes.ts'

/** Methods that pages may use, and for how many seconds browsers may cache this. */
const CORS = {
  'access-control-allow-methods': 'GET, HEAD, POST, PATCH, DELETE',
  'access-control-max-age': '7200',
}
/** Allowed when a preflight request names no headers. */
const USUAL_HEADERS = 'authorization, content-type, range'
const HEADER_NAMES = /^[\t ]*[\w!#$%&'*+.^`|~-]+(?:[\t ]*,[\t ]*[\w!#$%&'*+.^`|~-]+)*[\t ]*$/
const EXPOSED = [
  ...[
    'x-trace-id',
    'x-request-id',
    'retry-after',
    'retry-after-ms',
    'content-range',
    'content-disposition',
    MEDIA_NOTES,
    IGNORED_KEYWORDS,
    WARNING,
    FINGERPRINT,
  ],
  ...['www-authenticate', 'x-typesafe-request-id', 'request-id'],
  ...['x-ratelimit-limit-requests', 'x-ratelimit-remaining-requests', 'x-ratelimit-reset-requests'],
].join(', ')

/**
 * Allows pages of the given origins to call from a browser. API keys are sent in a header, so cookies are not allowed.
 * @param origins `*` allows all origins; an empty list allows none.
 */
export function allowOrigins(app: FastifyInstance, origins: readonly string[]): void {
  if (origins.length === 0) return
  const all = origins.includes('*')
  const known = new Set(origins)
  app.addHook('onRequest', async (request, reply) => {
    const { origin } = request.headers
    if (!all) reply.header('vary', 'Origin')
    if (origin === undefined || !(all || known.has(origin))) return
    reply.header('access-control-allow-origin', all ? '*' : origin).header('access-control-expose-headers', EXPOSED)
    // A preflight request carries no key yet.
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
 * Allows every header that the page asks for. Clients add headers that the server ignores (OpenAI's adds a dozen
 * `x-stainless-*`), so a fixed list would never be complete. `*` is not enough: it does not cover `authorization`.
 */
function allowedHeaders(requested: string | undefined): string {
  return requested !== undefined && HEADER_NAMES.test(requested) ? requested.trim() : USUAL_HEADERS
}

/**
 * Rejects a WebSocket from a page that may not call with `fetch` either: browsers leave this check to servers.
 * @throws ApiError 403
 */
export function checkSocketOrigin({ headers }: Pick<FastifyRequest, 'headers'>, origins: readonly string[]): void {
  const { origin, host, 'x-forwarded-host': forwarded } = headers
  if (origin === undefined || origins.includes('*') || origins.includes(origin)) return
  if (URL.canParse(origin) && [host, forwarded].includes(new URL(origin).host)) return
  const message = `LOOKOUT_CORS_ORIGINS does not allow pages of ${origin.slice(0, 200)}`
  throw invalidRequest(message, null, { status: 403 })
}
