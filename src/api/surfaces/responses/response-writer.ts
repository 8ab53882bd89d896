import type { ReplyEvent } from '../../../conversation/reply/reply.ts'
import type { ApiError } from '../../../lib/errors/errors.ts'
import type { MeteredRequest } from '../../http/record/metering.ts'
import type { Frames, ReplyWriter } from '../serve-chat.ts'
import { endedResponse, failedResponse } from './response-body.ts'
import { type ItemOptions, ResponseItems } from './response-items.ts'
import type { ResponseBody, ResponseEventBody } from './wire/response.ts'

interface ResponseContext extends Omit<ItemOptions, 'id'> {
  readonly begun: ResponseBody
  readonly metered: MeteredRequest
  /** Whether the stream is that of a WebSocket: a response ends with one event there, and the connection goes on. */
  readonly isOverSocket: boolean
  readonly streamId: string | undefined
  /** Whether the response has no output: the request is to be remembered. */
  readonly isEmpty: boolean
  /** Stores the response, or keeps it, if required. */
  readonly store: (ended: ResponseBody) => Promise<void>
}

/** Writes one response. The events of a stream are numbered. */
export class ResponseWriter implements ReplyWriter<ReplyEvent> {
  readonly #context: ResponseContext
  readonly #items: ResponseItems
  #ended: ResponseBody | null = null
  #next = 0

  constructor(context: ResponseContext) {
    this.#context = context
    this.#items = new ResponseItems({ ...context, id: context.begun.id })
  }

  begin(stream: Frames): void {
    const response = this.#context.begun
    this.#send({ type: 'response.created', response }, stream)
    this.#send({ type: 'response.in_progress', response }, stream)
  }

  write(event: ReplyEvent, stream: Frames): string | null {
    for (const told of this.#take(event)) this.#send(told, stream)
    return event.type === 'finish' ? event.reason : null
  }

  collect(event: ReplyEvent): string | null {
    this.#take(event)
    return event.type === 'finish' ? event.reason : null
  }

  keep(): Promise<void> {
    return this.#context.store(this.body())
  }

  end(stream: Frames): void {
    const response = this.body()
    const type = response.status === 'completed' ? 'response.completed' : 'response.incomplete'
    this.#send({ type, response }, stream)
    if (!this.#context.isOverSocket) stream.send('[DONE]')
  }

  fail(error: ApiError, stream: Frames): void {
    const { begun, isOverSocket } = this.#context
    const { message, code, param, type } = error
    if (!isOverSocket) {
      this.#send({ type: 'error', code, message, param, error: { type, code, message, param } }, stream)
    }
    this.#send({ type: 'response.failed', response: failedResponse(begun, error, this.#items.all) }, stream)
    if (!isOverSocket) stream.send('[DONE]')
  }

  body(): ResponseBody {
    return this.#ended!
  }

  #take(event: ReplyEvent): readonly ResponseEventBody[] {
    const { begun, metered, isEmpty } = this.#context
    if (event.type !== 'finish') return isEmpty ? [] : this.#items.push(event)
    const events = isEmpty ? [] : this.#items.end(event)
    const { cachedTokens } = metered.tokens
    const reason = isEmpty ? 'stop' : event.reason
    this.#ended = endedResponse(begun, { ...event, reason, output: this.#items.all, cachedTokens })
    return events
  }

  #send({ type, ...fields }: ResponseEventBody, stream: Frames): void {
    const { streamId: stream_id } = this.#context
    stream.send(JSON.stringify({ type, sequence_number: this.#next++, stream_id, ...fields }), type)
  }
}
