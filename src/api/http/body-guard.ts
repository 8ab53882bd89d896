import type { FastifyInstance, FastifyRequest } from 'fastify'
import { type ApiError, invalidRequest } from '../../lib/errors/errors.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** The route itself times out when a body stops arriving. */
    ownBodyTimeout?: true
    /** The route accepts bodies compressed with zstd. */
    zstd?: true
  }
}

/** Time limit for receiving a body. */
const BODY_TIMEOUT_MS = 120_000

/** Rejects compressed bodies and bodies that arrive too slowly. Register it after authentication. */
export function guardBodies(app: FastifyInstance, bodyTimeoutMs = BODY_TIMEOUT_MS): void {
  app.addHook('onRequest', (request, reply, done) => {
    const { raw, headers } = request
    const hasBody = headers['content-length'] !== undefined || headers['transfer-encoding'] !== undefined
    if (!hasBody) return done()
    done(encodingError(request))
    if (raw.complete || request.routeOptions.config.ownBodyTimeout) return
    const timer = setTimeout(() => {
      if (raw.complete || reply.sent) return
      // The endpoint's own error handler shows it.
      reply.send(invalidRequest('The request did not arrive in time', null, { status: 408 }))
    }, bodyTimeoutMs)
    const stop = () => clearTimeout(timer)
    raw.once('end', stop)
    reply.raw.once('close', stop)
  })
}

/** Returns the error for a compressed body, which would otherwise be reported as malformed JSON. */
function encodingError({ headers, routeOptions }: FastifyRequest): ApiError | undefined {
  const encoding = headers['content-encoding']
  if (encoding === undefined || encoding.toLowerCase() === 'identity') return undefined
  if (routeOptions.config.zstd && encoding.toLowerCase() === 'zstd') return undefined
  const message = `Content-Encoding '${encoding.slice(0, 50)}' is not supported; send the body uncompressed`
  return invalidRequest(message, null, { status: 415 })
}
