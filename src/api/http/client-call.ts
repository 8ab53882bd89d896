import type { FastifyReply, FastifyRequest, RouteHandlerMethod } from 'fastify'
import { principalOf } from './access/auth.ts'
import type { ApiCall } from './api-call.ts'
import { closedSignal } from './connection/abort-signal.ts'
import { type Framing, ResponseStream } from './connection/response-stream.ts'

/** A client's request over HTTP. */
export class ClientCall implements ApiCall {
  readonly closed: AbortSignal
  readonly #request: FastifyRequest
  readonly #reply: FastifyReply

  constructor(request: FastifyRequest, reply: FastifyReply) {
    this.#request = request
    this.#reply = reply
    this.closed = closedSignal(reply)
  }

  get id() {
    return this.#request.id
  }

  get principal() {
    return principalOf(this.#request)
  }

  get headers() {
    return this.#request.headers
  }

  get body() {
    return this.#request.raw
  }

  get logger() {
    return this.#request.server.logger
  }

  get trace() {
    return this.#request.trace
  }

  get status(): number | null {
    const { raw } = this.#reply
    return raw.writableFinished ? raw.statusCode : null
  }

  servedBy(model: string): void {
    this.#request.servedModel = model
  }

  setHeader(name: string, value: string): void {
    if (!this.#reply.raw.headersSent) this.#reply.header(name, value)
  }

  openStream(framing: Framing, keepAliveMs?: number): ResponseStream {
    return new ResponseStream(this.#reply, framing, keepAliveMs)
  }
}

/** A handler for Fastify that answers requests as calls. */
export function handlerOf(answer: (call: ApiCall) => Promise<unknown>): RouteHandlerMethod {
  return (request, reply) => answer(new ClientCall(request, reply))
}
