import { setImmediate } from 'node:timers/promises'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { ApiKeys } from '../../../accounts/authenticator.ts'
import type { RateLimits } from '../../../accounts/rate-limits.ts'
import type { ReplyEvent } from '../../../conversation/reply/reply.ts'
import { type ApiError, invalidRequest, rateLimited, wholeSeconds } from '../../../lib/errors/errors.ts'
import { parseRecord } from '../../../lib/json/parse-json.ts'
import { withTimeout } from '../../../lib/with-timeout.ts'
import { accessError, ownerOf, principalOf } from '../../http/access/auth.ts'
import { checkSocketOrigin } from '../../http/access/cors.ts'
import { countRequest } from '../../http/access/rate-limits.ts'
import type { ReplyStream } from '../../http/api-call.ts'
import type { ReadBody } from '../../http/body/body-reader.ts'
import type { ByteBudget, ByteLease } from '../../http/body/byte-budget.ts'
import { callOf } from '../../http/client-call.ts'
import { CLIENT_CLOSED_REQUEST } from '../../http/connection/abort-signal.ts'
import { FINAL_SEND_MS, shuttingDown } from '../../http/connection/graceful-shutdown.ts'
import { type Message, MessageSocket } from '../../http/connection/message-socket.ts'
import { upgrade } from '../../http/connection/upgrades.ts'
import { noteError, toApiError } from '../../http/error-handler.ts'
import { type CallRecords, InnerCall } from '../../http/inner-call.ts'
import { clientRequestId } from '../../http/record/request-log.ts'
import type { Serving } from '../admission.ts'
import { type ChatSurface, serveChat } from '../serve-chat.ts'
import { type Conversation, KeptResponses } from './kept-responses.ts'
import type { ItemBody } from './wire/items.ts'
import type { ResponseBody } from './wire/response.ts'
import type { ResponseCreateBody } from './wire/response-request.ts'

export interface ResponseSocketOptions extends Serving, CallRecords {
  readonly keys: ApiKeys
  /** Null when the server has no rate limits. */
  readonly rateLimits: RateLimits | null
  /** Origins whose pages may connect, as `allowOrigins` takes them. */
  readonly corsOrigins: readonly string[]
  /** Fires when new requests are no longer accepted. */
  readonly draining: AbortSignal
  /** The room for responses that connections keep. */
  readonly kept: ByteBudget
}

/** What a response shares with the connection that it is sent over. */
export interface ResponseConnection {
  /** Returns the items of a response that the connection keeps; undefined for any other. */
  find(id: string): ItemBody[] | undefined
  /** @param unstored the items that the response answers, unless it is stored; before the conversation takes their media. */
  begin(id: string, unstored: readonly ItemBody[] | null): void
  /** Keeps the response, unless it is stored. */
  keep(ended: ResponseBody): void
}

type SurfaceOf = (connection: ResponseConnection) => ChatSurface<ReadBody<ResponseCreateBody>, ReplyEvent>

/** As long as with OpenAI. */
const LONGEST_MS = 3_600_000
/** Messages that may wait for the responses to earlier ones. */
const MOST_WAITING = 16
const RETRY_SECONDS = 1
/** Larger messages are requests. */
const MOST_CANCEL_BYTES = 4_096
const GOING_AWAY = 1001
const POLICY_VIOLATION = 1008
const TOO_OLD = 'websocket_connection_limit_reached'
const NO_BYTES = Buffer.alloc(0)

/**
 * Answers requests for responses that arrive as messages of a WebSocket, one after the other, each like a streamed
 * `POST /v1/responses`.
 */
export class ResponseSocket {
  readonly #request: FastifyRequest
  readonly #options: ResponseSocketOptions
  readonly #surfaceOf: SurfaceOf
  readonly #socket: MessageSocket
  readonly #kept: KeptResponses
  /** The call that is running, then those that wait. */
  readonly #calls = new Set<MessageCall>()
  #answered: Promise<void> = Promise.resolve()
  /** Why no more requests are answered; null while they are. */
  #ending: ApiError | null = null

  /** @throws ApiError as `upgrade` and `checkSocketOrigin` do. */
  constructor(request: FastifyRequest, reply: FastifyReply, options: ResponseSocketOptions, surfaceOf: SurfaceOf) {
    checkSocketOrigin(request, options.corsOrigins)
    const { draining, shutdown, keepAliveMs, bodies, kept } = options
    const connection = callOf(request, reply)
    this.#request = request
    this.#options = options
    this.#surfaceOf = surfaceOf
    this.#kept = new KeptResponses(kept)
    this.#socket = new MessageSocket(upgrade(request, reply), {
      pingMs: keepAliveMs,
      reserve: async (bytes, isBegun) => {
        // A large message waits with the client, like a body over HTTP: here, it would keep its room for as long as the
        // responses before it take.
        if (!isBegun) await this.#answered
        return bodies.reserve(bytes, isBegun, connection)
      },
      onMessage: (message) => this.#take(message),
    })
    const timer = setTimeout(() => void this.#end(tooOld()), LONGEST_MS)
    const leave = () => void this.#end(shuttingDown())
    // After the error that ends the response. A client that does not read it would delay the shutdown.
    const stop = () => withTimeout(FINAL_SEND_MS, this.#answered, undefined).then(() => this.#close())
    draining.addEventListener('abort', leave)
    shutdown.addEventListener('abort', stop)
    connection.closed.addEventListener('abort', () => {
      clearTimeout(timer)
      draining.removeEventListener('abort', leave)
      shutdown.removeEventListener('abort', stop)
      for (const call of this.#calls) call.end()
      this.#kept.clear()
    })
  }

  #take(message: Message): void {
    const { data, lease } = message
    if (data.byteLength <= MOST_CANCEL_BYTES && this.#cancel(parseRecord(data.toString()))) {
      lease?.release()
      return
    }
    const call = new MessageCall(message, this.#socket, this.#kept, this.#request, this.#options)
    if (this.#calls.size > MOST_WAITING) {
      this.#refuse(call, rateLimited('Too many requests wait for their responses', RETRY_SECONDS))
      call.end()
      // Others have their turn before more of a flood is read.
      void this.#socket.pausing(setImmediate())
      return
    }
    this.#calls.add(call)
    this.#answered = this.#answered.then(() => this.#answer(call))
  }

  /**
   * Cancels the running response if the message asks for it. A response that has ended needs no cancelling.
   * @returns whether it asks for that.
   */
  #cancel(message: Record<string, unknown> | null): boolean {
    if (message?.type !== 'response.cancel') return false
    const [running] = this.#calls
    const id = message.response_id ?? running?.responseId
    if (running?.responseId !== null && running?.responseId === id) running?.cancel()
    return true
  }

  async #answer(call: MessageCall): Promise<void> {
    try {
      call.closed.throwIfAborted()
      if (this.#ending !== null) throw this.#ending
      await this.#admit(call)
      const { shutdown } = this.#options
      const serving = { ...this.#options, shutdown: AbortSignal.any([shutdown, call.cancelled]) }
      await serveChat(call, serving, this.#surface(call))
      if (!call.cancelled.aborted) call.status = 200
    } catch (cause) {
      if (!call.closed.aborted) this.#refuse(call, toApiError(cause))
    } finally {
      call.end()
      this.#calls.delete(call)
    }
  }

  /**
   * Checks the key and the rate limit, as for each request over HTTP.
   * @throws ApiError 401, 403, 429, 503
   */
  async #admit(call: MessageCall): Promise<void> {
    const { keys, rateLimits } = this.#options
    const owner = await ownerOf(this.#request, keys)
    const refusal = accessError(owner, { url: undefined, scope: 'inference' })
    if (refusal !== undefined) throw refusal
    call.owner = owner
    if (rateLimits !== null) await countRequest(rateLimits, call.principal, 'chat')
  }

  #surface(call: MessageCall): ReturnType<SurfaceOf> {
    const surface = this.#surfaceOf(call)
    const read: typeof surface.read = async (_, bodies) => {
      const body = await surface.read(call, bodies)
      call.body = NO_BYTES
      call.streamId = body.value.stream_id
      return body
    }
    return { ...surface, read }
  }

  #refuse(call: MessageCall, error: ApiError): void {
    noteError(error, call)
    call.status = error.status
    if (call.continued !== null) this.#kept.evict(call.continued)
    this.#sendError(error, call)
    if (error.status === 401) this.#socket.close(POLICY_VIOLATION, 'The API key is revoked or has expired')
  }

  /** @param call null for an error of the connection itself. */
  #sendError(error: ApiError, call: MessageCall | null = null): void {
    const { status, retryAfter } = error
    const headers = {
      ...(call && { 'x-trace-id': call.id }),
      ...(retryAfter !== undefined && { 'retry-after': `${wholeSeconds(retryAfter)}` }),
    }
    const stream_id = call?.streamId
    this.#socket.send(JSON.stringify({ type: 'error', status, stream_id, error: { ...error.toBody().error, headers } }))
  }

  /** Closes the connection when the running response has ended. Waiting requests are rejected. */
  async #end(ending: ApiError): Promise<void> {
    this.#ending = ending
    await this.#answered
    if (ending.code === TOO_OLD) this.#sendError(ending)
    this.#close()
  }

  #close(): void {
    this.#socket.close(GOING_AWAY, this.#ending?.message ?? '')
  }
}

/** A message as a call. It ends with its response, or when the connection closes before that. */
class MessageCall extends InnerCall implements ResponseConnection {
  readonly lease: ByteLease | null
  /** Null before the response begins. */
  responseId: string | null = null
  streamId: string | undefined
  /** The response that it continues. */
  continued: string | null = null
  readonly #kept: KeptResponses
  #conversation: Conversation | null = null
  readonly #socket: MessageSocket
  readonly #cancelling = new AbortController()
  readonly cancelled = this.#cancelling.signal

  constructor(
    { data: body, lease }: Message,
    socket: MessageSocket,
    kept: KeptResponses,
    request: FastifyRequest,
    records: CallRecords,
  ) {
    const about = { path: request.routeOptions.url!, owner: principalOf(request), clientId: clientRequestId(request) }
    super({ ...about, body, headers: { ...request.headers, 'content-encoding': undefined }, isTraced: true }, records)
    this.lease = lease
    this.#kept = kept
    this.#socket = socket
  }

  find(id: string): ItemBody[] | undefined {
    this.continued = id
    return this.#kept.find(id)
  }

  begin(id: string, unstored: readonly ItemBody[] | null): void {
    this.responseId = id
    this.#conversation = unstored && this.#kept.hold(unstored, this.principal.organisation)
  }

  keep(ended: ResponseBody): void {
    if (this.#conversation !== null) this.#kept.keep(this.streamId, ended, this.#conversation)
    this.#conversation = null
  }

  openStream(): ReplyStream {
    const { closed } = this
    const socket = this.#socket
    return {
      get isClosed() {
        return closed.aborted
      },
      get full() {
        return socket.full
      },
      send: (data) => socket.send(data),
      end() {},
    }
  }

  cancel(): void {
    const about = { status: CLIENT_CLOSED_REQUEST, code: 'response_cancelled' } as const
    this.#cancelling.abort(invalidRequest('The client cancelled the response', null, about))
  }

  override end(): void {
    super.end()
    this.lease?.release()
    this.#conversation?.lease.release()
    this.#cancelling.abort()
  }
}

function tooOld(): ApiError {
  const message = `A connection may last ${LONGEST_MS / 60_000} minutes; open a new one to continue`
  return invalidRequest(message, null, { code: TOO_OLD })
}
