import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { principalOf } from './access/auth.ts'
import type { ApiCall } from './api-call.ts'
import { closedSignal } from './connection/abort-signal.ts'
import { ResponseStream } from './connection/response-stream.ts'
import { addEndpoint, type Endpoint } from './routes.ts'

/** Returns a client's request over HTTP as a call. */
export function callOf(request: FastifyRequest, reply: FastifyReply): ApiCall {
  const { id, headers, trace, raw: body } = request
  const { raw } = reply
  return {
    ...{ id, headers, trace, body },
    principal: principalOf(request),
    logger: request.server.logger,
    closed: closedSignal(reply),
    get status() {
      return raw.writableFinished ? raw.statusCode : null
    },
    servedBy(model) {
      request.servedModel = model
    },
    setHeader(name, value) {
      if (!raw.headersSent) reply.header(name, value)
    },
    openStream: (framing, keepAliveMs) => new ResponseStream(reply, framing, keepAliveMs),
  }
}

interface Calls extends Omit<Endpoint, 'url' | 'scope' | 'handlers'> {
  /** By URL. */
  readonly answers: Readonly<Record<string, (call: ApiCall) => Promise<unknown>>>
}

/** Adds endpoints that answer `POST` requests as calls. */
export function addCalls(app: FastifyInstance, { answers, ...shared }: Calls): void {
  for (const [url, answer] of Object.entries(answers)) {
    const handlers: Endpoint['handlers'] = { POST: (request, reply) => answer(callOf(request, reply)) }
    addEndpoint(app, { ...shared, scope: 'inference', url, handlers })
  }
}
