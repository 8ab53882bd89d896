import { randomBytes } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
import type { Logger } from 'pino'
import { CLIENT_GONE } from './abort-signal.ts'
import { pathOf } from './error-handler.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** In place of Fastify's, which makes a logger for each request. */
    logger: Logger
  }
}

const ID_CHARACTERS = 32
const IDS_AT_ONCE = 256
let drawn = ''
let used = 0

/** A new id for every request; what a client sends under this name is not taken over. */
export function newTraceId(): string {
  // By itself, each draw is a tenth of what a small request costs.
  if (used === drawn.length) {
    drawn = randomBytes((ID_CHARACTERS / 2) * IDS_AT_ONCE).toString('hex')
    used = 0
  }
  used += ID_CHARACTERS
  return drawn.slice(used - ID_CHARACTERS, used)
}

/** A trace id under the two names that clients read: the contract's and OpenAI's. */
export function traceHeaders(id: string): Record<'x-trace-id' | 'x-request-id', string> {
  return { 'x-trace-id': id, 'x-request-id': id }
}

/** Gives every answer its trace id, and the log one line about it: no bodies, keys or queries. */
export function logRequests(app: FastifyInstance, logger: Logger): void {
  app.decorate('logger', logger)
  const written = logger.isLevelEnabled('info')
  app.addHook('onRequest', (request, reply, done) => {
    reply.headers(traceHeaders(request.id))
    if (!written) return done()
    const start = performance.now()
    reply.raw.once('close', () => {
      const line = {
        traceId: request.id,
        method: request.method,
        path: request.routeOptions.url ?? pathOf(request),
        status: reply.raw.writableFinished ? reply.raw.statusCode : CLIENT_GONE,
        ms: Math.round(performance.now() - start),
        organisation: request.principal?.organisation,
      }
      logger.info(line, 'request')
    })
    done()
  })
}
