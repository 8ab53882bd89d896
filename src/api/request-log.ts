import { randomUUID } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
import { pathOf } from './error-handler.ts'

/** A new id for every request; what a client sends under this name is not taken over. */
export function newTraceId(): string {
  // Node draws the bits of many at once; by itself, each draw is a tenth of what a small request costs.
  return randomUUID().replaceAll('-', '')
}

/** Gives every answer its trace id, and the log one line about it: no bodies, keys or queries. */
export function logRequests(app: FastifyInstance): void {
  app.addHook('onRequest', (request, reply, done) => {
    const start = performance.now()
    reply.header('x-trace-id', request.id)
    reply.raw.once('close', () => {
      const line = {
        method: request.method,
        path: request.routeOptions.url ?? pathOf(request),
        status: reply.raw.statusCode,
        ms: Math.round(performance.now() - start),
        organisation: request.principal?.organisation,
        gone: reply.raw.writableFinished ? undefined : true,
      }
      request.log.info(line, 'request')
    })
    done()
  })
}
