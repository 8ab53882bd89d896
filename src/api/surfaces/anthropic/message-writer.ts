import { randomUUID } from 'node:crypto'
import type { ReplyEvent, ReplyFinish } from '../../../conversation/reply/reply.ts'
import type { ServedModel } from '../../../inference/catalog/registry.ts'
import type { ApiError } from '../../../lib/errors/errors.ts'
import type { MeteredRequest } from '../../http/record/metering.ts'
import type { Frames, ReplyWriter } from '../serve-chat.ts'
import { toErrorBody } from './errors.ts'
import { BlockCollector, MessageBlocks } from './message-blocks.ts'
import type { MessageRequestBody } from './wire/message-request.ts'
import type { MessageBody, MessageEventBody, MessageUsageBody, StopReason } from './wire/message-response.ts'

export interface MessageContext {
  readonly model: ServedModel
  readonly metered: MeteredRequest
  readonly requestId: string
}

/** Writes one message, whole or as the events of a stream. */
export class MessageWriter implements ReplyWriter<ReplyEvent> {
  readonly #id = `msg_${randomUUID().replaceAll('-', '')}`
  readonly #body: MessageRequestBody
  readonly #context: MessageContext
  readonly #blocks: MessageBlocks
  readonly #collector = new BlockCollector()
  #finish: ReplyFinish | null = null

  constructor(body: MessageRequestBody, context: MessageContext) {
    this.#body = body
    this.#context = context
    const { thinking } = body
    const display = thinking && 'display' in thinking ? thinking.display : null
    this.#blocks = new MessageBlocks({ signature: this.#id, showsThinking: display !== 'omitted' })
  }

  /** Returns the message before its first block. */
  #begun(): MessageBody {
    return {
      id: this.#id,
      type: 'message',
      role: 'assistant',
      model: this.#body.model,
      content: [],
      stop_reason: null,
      stop_sequence: null,
      stop_details: null,
      container: null,
      diagnostics: null,
      usage: this.#wholeUsage(null),
    }
  }

  begin(stream: Frames): void {
    this.#send({ type: 'message_start', message: this.#begun() }, stream)
  }

  write(event: ReplyEvent, stream: Frames): string | null {
    if (event.type === 'finish') return this.#ended(event)
    for (const made of this.#blocks.take(event)) this.#send(made, stream)
    return null
  }

  end(stream: Frames): void {
    for (const made of this.#blocks.end()) this.#send(made, stream)
    this.#send({ type: 'message_delta', ...this.#end() } as MessageEventBody, stream)
    this.#send({ type: 'message_stop' }, stream)
  }

  fail(error: ApiError, stream: Frames): void {
    stream.send(JSON.stringify(toErrorBody(error, this.#context.requestId)), 'error')
  }

  collect(event: ReplyEvent): string | null {
    for (const made of event.type === 'finish' ? this.#blocks.end() : this.#blocks.take(event)) {
      this.#collector.add(made)
    }
    return event.type === 'finish' ? this.#ended(event) : null
  }

  body(): MessageBody {
    const { delta } = this.#end()
    return {
      ...this.#begun(),
      content: this.#collector.blocks,
      ...delta,
      usage: this.#wholeUsage(this.#finish),
    }
  }

  #send(event: MessageEventBody, stream: Frames): void {
    stream.send(JSON.stringify(event), event.type)
  }

  #ended(finish: ReplyFinish): string {
    this.#finish = finish
    return finish.reason
  }

  #end() {
    const finish = this.#finish!
    const { stoppedBy = null } = finish
    return {
      delta: { stop_reason: this.#reason(finish), stop_sequence: stoppedBy, stop_details: null, container: null },
      usage: this.#usage(finish),
    }
  }

  #reason({ reason, stoppedBy, usage }: ReplyFinish): StopReason {
    if (stoppedBy !== undefined) return 'stop_sequence'
    if (reason === 'tool_calls') return 'tool_use'
    if (reason !== 'length') return 'end_turn'
    const isFull = usage.promptTokens + usage.completionTokens >= this.#context.model.contextTokens
    return isFull ? 'model_context_window_exceeded' : 'max_tokens'
  }

  #wholeUsage(finish: ReplyFinish | null): MessageBody['usage'] {
    return {
      ...this.#usage(finish),
      ...{ cache_creation: null, inference_geo: null, service_tier: 'standard', speed: null },
    }
  }

  /** @param finish null before the first block. */
  #usage(finish: ReplyFinish | null): MessageUsageBody {
    const { tokens } = this.#context.metered
    const { promptTokens, completionTokens, reasoningTokens } = finish?.usage ?? { ...tokens, ...NONE_WRITTEN }
    const cached = Math.min(tokens.cachedTokens, promptTokens)
    return {
      input_tokens: promptTokens - cached,
      cache_creation_input_tokens: 0,
      cache_read_input_tokens: cached,
      output_tokens: completionTokens,
      output_tokens_details: { thinking_tokens: reasoningTokens },
      server_tool_use: null,
    }
  }
}

const NONE_WRITTEN = { completionTokens: 0, reasoningTokens: 0 }
