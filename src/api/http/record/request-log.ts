import { randomBytes } from 'node:crypto'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Logger } from 'pino'
import type { RequestTrace } from '../../../tracing/request-trace.ts'
import { CLIENT_CLOSED_REQUEST } from '../connection/abort-signal.ts'
import { pathOf } from '../error-handler.ts'

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

/** Makes a new id for a request. Clients cannot choose it, because usage is recorded under it. */
export function newTraceId(): string {
  // Drawn in batches: one draw per request would be a tenth of the cost of a small request.
  if (used === drawn.length) {
    drawn = randomBytes((ID_CHARACTERS / 2) * IDS_AT_ONCE).toString('hex')
    used = 0
  }
  used += ID_CHARACTERS
  return drawn.slice(used - ID_CHARACTERS, used)
}

const REQUEST_ID = 'x-request-id'
/** An id is used unchanged or not at all: a shortened one would not match the client's log. */
const USABLE_ID = /^[\x21-\x7e]{1,128}$/

/** Returns the client's id for its request, from `x-request-id`; null without a usable one. */
export function clientRequestId({ headers }: Pick<FastifyRequest, 'headers'>): string | null {
  const id = headers[REQUEST_ID]
  return typeof id === 'string' && USABLE_ID.test(id) ? id : null
}

/** Returns the id headers of a response: the contract's, and OpenAI's, which holds the client's own id if there is one. */
export function idHeaders(traceId: string, requestId: string | null = null) {
  return { 'x-trace-id': traceId, [REQUEST_ID]: requestId ?? traceId }
}

interface LoggedRequest {
  readonly id: string
  /** The client's own id; null without one. */
  readonly clientId: string | null
  readonly trace: RequestTrace | null
  readonly method: string
  readonly path: string
  readonly status: number
  readonly ms: number
  readonly organisation: string | undefined
}

/** Logs one line about a request that has ended, without body, key or query. */
export function logRequest(
  logger: Logger,
  { id, clientId, trace, method, path, status, ms, organisation }: LoggedRequest,
): void {
  const clientTraceId = trace?.traceId
  const line = {
    traceId: id,
    ...(clientId === null ? {} : { clientRequestId: clientId }),
    ...(clientTraceId === undefined || clientTraceId === id ? {} : { clientTraceId }),
    ...{ method, path, status, ms: Math.round(ms), organisation },
  }
  logger.info(line, 'request')
}

/** Gives every response its ids, and logs it. */
export function logRequests(app: FastifyInstance, logger: Logger): void {
  app.decorate('logger', logger)
  const written = logger.isLevelEnabled('info')
  app.addHook('onRequest', (request, reply, done) => {
    const { id, method } = request
    const { raw } = reply
    const clientId = clientRequestId(request)
    reply.headers(idHeaders(id, clientId))
    if (!written) return done()
    const start = performance.now()
    raw.once('close', () => {
      logRequest(logger, {
        ...{ id, clientId, method, trace: request.trace },
        path: request.routeOptions.url ?? pathOf(request),
        status: raw.writableFinished ? raw.statusCode : CLIENT_CLOSED_REQUEST,
        ms: performance.now() - start,
        organisation: request.principal?.organisation,
      })
    })
    done()
  })
}
