import type { FastifyInstance, FastifyRequest } from 'fastify'
import { ApiError, invalidRequest } from '../../lib/errors.ts'

/** Time limit for receiving a JSON body. */
const BODY_TIMEOUT_MS = 120_000

/** Rejects compressed bodies and bodies that arrive too slowly. Register it after authentication. */
export function guardBodies(app: FastifyInstance, bodyTimeoutMs = BODY_TIMEOUT_MS): void {
  app.addHook('onRequest', (request, reply, done) => {
    const { raw, headers } = request
    const hasBody = headers['content-length'] !== undefined || headers['transfer-encoding'] !== undefined
    if (!hasBody) return done()
    done(encodingError(request))
    // Uploads have a timeout of their own.
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

/** Without this, a compressed body would be reported as malformed JSON. */
function encodingError({ headers }: FastifyRequest): ApiError | undefined {
  const encoding = headers['content-encoding']
  if (encoding === undefined || encoding.toLowerCase() === 'identity') return undefined
  return invalidRequest(
    `Content-Encoding '${encoding.slice(0, 50)}' is not supported; send the body uncompressed`,
    null,
    {
      status: 415,
    },
  )
}
