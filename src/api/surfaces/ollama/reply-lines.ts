import type { ReplyEvent, ReplyFinish } from '../../../conversation/reply/reply.ts'
import type { ApiError } from '../../../lib/errors.ts'
import { toLogProbs } from '../openai/log-probs.ts'
import type { Frames, ReplyWriter } from '../serve-chat.ts'
import type { EndBody, LineBody, LogProbBody, SaidBody, ToolCallBody } from './wire/responses.ts'

/** Builds a line's fields for a piece of the reply. Chats and completions differ only in these. */
export type Shape = (said: SaidBody) => object

interface OpenCall {
  readonly id: string
  readonly name: string
  json: string
}

/** Writes the lines of one reply. A tool call is written when it is complete. */
export class ReplyLines implements ReplyWriter<ReplyEvent> {
  readonly #model: string
  readonly #shape: Shape
  readonly #began = performance.now()
  #firstAt: number | null = null
  #call: OpenCall | null = null
  #calls = 0
  #finish: ReplyFinish | null = null
  /** The contents of a reply in one body. */
  readonly #said = { text: '', thinking: '', toolCalls: [] as ToolCallBody[] }
  readonly #logProbs: LogProbBody[] = []

  constructor(model: string, shape: Shape) {
    this.#model = model
    this.#shape = shape
  }

  write(event: ReplyEvent, stream: Frames): string | null {
    if (event.type === 'finish') return this.#ended(event)
    for (const line of this.#lines(event)) stream.send(JSON.stringify(line))
    return null
  }

  #lines(event: Exclude<ReplyEvent, ReplyFinish>): object[] {
    this.#firstAt ??= performance.now()
    switch (event.type) {
      case 'text': {
        const logprobs = event.logProbs === undefined ? {} : { logprobs: toLogProbBodies(event.logProbs) }
        return [...this.#endCall(), this.#line({ text: event.text }, { done: false, ...logprobs })]
      }
      case 'reasoning':
        return [this.#line({ thinking: event.text }, { done: false })]
      case 'tool_call': {
        const ended = this.#endCall()
        this.#call = { id: event.id, name: event.name, json: '' }
        return ended
      }
      case 'tool_arguments':
        this.#call!.json += event.text
        return []
    }
  }

  end(stream: Frames): void {
    const { logProbs } = this.#finish!
    const logprobs = logProbs === undefined ? {} : { logprobs: toLogProbBodies(logProbs) }
    for (const line of [...this.#endCall(), this.#line({}, { ...this.#end(), ...logprobs })]) {
      stream.send(JSON.stringify(line))
    }
  }

  fail(error: ApiError, stream: Frames): void {
    stream.send(JSON.stringify(toErrorBody(error)))
  }

  /** The reply to a request without a prompt. */
  loaded(): object {
    return this.#line({}, { done: true, done_reason: 'load' })
  }

  collect(event: ReplyEvent): string | null {
    const said = this.#said
    this.#firstAt ??= performance.now()
    this.#logProbs.push(...toLogProbBodies(event.logProbs ?? []))
    switch (event.type) {
      case 'text':
        said.text += event.text
        return null
      case 'reasoning':
        said.thinking += event.text
        return null
      case 'tool_call':
        said.toolCalls.push(...this.#takeCall())
        this.#call = { id: event.id, name: event.name, json: '' }
        return null
      case 'tool_arguments':
        this.#call!.json += event.text
        return null
      case 'finish':
        said.toolCalls.push(...this.#takeCall())
        return this.#ended(event)
    }
  }

  body(): object {
    const logprobs = this.#logProbs.length === 0 ? {} : { logprobs: this.#logProbs }
    return this.#line(this.#said, { ...this.#end(), ...logprobs })
  }

  #ended(finish: ReplyFinish): string {
    this.#firstAt ??= performance.now()
    this.#finish = finish
    return finish.reason
  }

  #endCall(): object[] {
    const toolCalls = this.#takeCall()
    return toolCalls.length === 0 ? [] : [this.#line({ toolCalls }, { done: false })]
  }

  /** A truncated call has no valid arguments, and is left out. */
  #takeCall(): ToolCallBody[] {
    const call = this.#call
    this.#call = null
    if (call === null) return []
    try {
      const { id, name, json } = call
      return [{ id, function: { index: this.#calls++, name, arguments: JSON.parse(json) } }]
    } catch {
      return []
    }
  }

  #line(said: Partial<SaidBody>, rest: DistributiveOmit<LineBody, 'model' | 'created_at'>): object {
    const whole = { text: '', thinking: '', toolCalls: [], ...said }
    return { model: this.#model, created_at: new Date().toISOString(), ...this.#shape(whole), ...rest }
  }

  #end(): EndBody {
    const { reason, usage } = this.#finish!
    const now = performance.now()
    const firstAt = this.#firstAt ?? now
    return {
      done: true,
      done_reason: reason === 'length' ? 'length' : 'stop',
      total_duration: nanoseconds(now - this.#began),
      load_duration: 0,
      prompt_eval_count: usage.promptTokens,
      prompt_eval_duration: nanoseconds(firstAt - this.#began),
      eval_count: usage.completionTokens,
      eval_duration: nanoseconds(now - firstAt),
    }
  }
}

type DistributiveOmit<Union, Key extends PropertyKey> = Union extends unknown ? Omit<Union, Key> : never

function nanoseconds(milliseconds: number): number {
  return Math.round(milliseconds * 1e6)
}

function toLogProbBodies(tokens: NonNullable<ReplyEvent['logProbs']>): LogProbBody[] {
  return (toLogProbs(tokens).content ?? []).map(({ top_logprobs: top, ...token }) => {
    return top.length === 0 ? token : { ...token, top_logprobs: top }
  })
}

/** Builds the fields of a line of `/api/chat`. */
export function chatShape({ text, thinking, toolCalls }: SaidBody): object {
  return {
    message: {
      role: 'assistant',
      content: text,
      ...(thinking === '' ? {} : { thinking }),
      ...(toolCalls.length === 0 ? {} : { tool_calls: toolCalls }),
    },
  }
}

/** Builds the fields of a line of `/api/generate`. */
export function generateShape({ text, thinking }: SaidBody): object {
  return { response: text, ...(thinking === '' ? {} : { thinking }) }
}

/** Ollama's errors are plain texts. */
export function toErrorBody({ sentence }: ApiError): object {
  return { error: sentence }
}
