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
  /** Stores the response; null to store nothing. */
  readonly store: ((ended: ResponseBody) => Promise<void>) | null
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

  async keep(): Promise<void> {
    await this.#context.store?.(this.body())
  }

  end(stream: Frames): void {
    const response = this.body()
    const type = response.status === 'completed' ? 'response.completed' : 'response.incomplete'
    this.#send({ type, response }, stream)
    stream.send('[DONE]')
  }

  fail(error: ApiError, stream: Frames): void {
    const { message, code, param, type } = error
    this.#send({ type: 'error', code, message, param, error: { type, code, message, param } }, stream)
    const response = failedResponse(this.#context.begun, error, this.#items.all)
    this.#send({ type: 'response.failed', response }, stream)
    stream.send('[DONE]')
  }

  body(): ResponseBody {
    return this.#ended!
  }

  #take(event: ReplyEvent): readonly ResponseEventBody[] {
    if (event.type !== 'finish') return this.#items.push(event)
    const events = this.#items.end(event)
    const { begun, metered } = this.#context
    const { cachedTokens } = metered.tokens
    this.#ended = endedResponse(begun, { ...event, output: this.#items.all, cachedTokens })
    return events
  }

  #send({ type, ...fields }: ResponseEventBody, stream: Frames): void {
    stream.send(JSON.stringify({ type, sequence_number: this.#next++, ...fields }), type)
  }
}
