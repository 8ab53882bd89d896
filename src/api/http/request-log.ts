import { randomBytes } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
import type { Logger } from 'pino'
import { CLIENT_CLOSED_REQUEST } from './abort-signal.ts'
import { pathOf } from './error-handler.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** Replaces Fastify's own logging, which makes a child logger for each request. */
    logger: Logger
  }
}

const ID_CHARACTERS = 32
const IDS_AT_ONCE = 256
let drawn = ''
let used = 0

/** Makes a new id for a request; an id that the client sends is ignored. */
export function newTraceId(): string {
  // Drawn in batches: one draw for each request would be a tenth of the cost of a small request.
  if (used === drawn.length) {
    drawn = randomBytes((ID_CHARACTERS / 2) * IDS_AT_ONCE).toString('hex')
    used = 0
  }
  used += ID_CHARACTERS
  return drawn.slice(used - ID_CHARACTERS, used)
}

/** The trace id under the two names that clients read: the contract's and OpenAI's. */
export function traceHeaders(id: string): Record<'x-trace-id' | 'x-request-id', string> {
  return { 'x-trace-id': id, 'x-request-id': id }
}

/** Gives every response its trace id, and logs one line about it, without body, key or query. */
export function logRequests(app: FastifyInstance, logger: Logger): void {
  app.decorate('logger', logger)
  const written = logger.isLevelEnabled('info')
  app.addHook('onRequest', (request, reply, done) => {
    reply.headers(traceHeaders(request.id))
    if (!written) return done()
    const start = performance.now()
    reply.raw.once('close', () => {
      const trace = request.trace?.traceId
      const line = {
        traceId: request.id,
        ...(trace === undefined || trace === request.id ? {} : { clientTraceId: trace }),
        method: request.method,
        path: request.routeOptions.url ?? pathOf(request),
        status: reply.raw.writableFinished ? reply.raw.statusCode : CLIENT_CLOSED_REQUEST,
        ms: Math.round(performance.now() - start),
        organisation: request.principal?.organisation,
      }
      logger.info(line, 'request')
    })
    done()
  })
}
