import type { ReplyEvent, ReplyFinish } from '../../../conversation/reply/reply.ts'
import type { ApiError } from '../../../lib/errors/errors.ts'
import { parseToWrite } from '../../../lib/json/parse-json.ts'
import { toLogProbs } from '../openai/log-probs.ts'
import type { Frames, ReplyWriter } from '../serve-chat.ts'
import { toErrorBody } from './errors.ts'
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
    for (const said of this.#take(event)) {
      const logprobs = said.text === undefined ? {} : logProbsOf(event)
      stream.send(JSON.stringify(this.#line(said, { done: false, ...logprobs })))
    }
    return event.type === 'finish' ? event.reason : null
  }

  end(stream: Frames): void {
    stream.send(JSON.stringify(this.#line({}, { ...this.#end(), ...logProbsOf(this.#finish!) })))
  }

  fail(error: ApiError, stream: Frames): void {
    stream.send(JSON.stringify(toErrorBody(error)))
  }

  /** The reply to a request without a prompt. */
  loaded(): object {
    return this.#line({}, { done: true, done_reason: 'load' })
  }

  collect(event: ReplyEvent): string | null {
    this.#logProbs.push(...toLogProbBodies(event.logProbs ?? []))
    for (const { text = '', thinking = '', toolCalls = [] } of this.#take(event)) {
      this.#said.text += text
      this.#said.thinking += thinking
      this.#said.toolCalls.push(...toolCalls)
    }
    return event.type === 'finish' ? event.reason : null
  }

  body(): object {
    const logprobs = this.#logProbs.length === 0 ? {} : { logprobs: this.#logProbs }
    return this.#line(this.#said, { ...this.#end(), ...logprobs })
  }

  /** Returns what the event completes, in order. */
  #take(event: ReplyEvent): Partial<SaidBody>[] {
    this.#firstAt ??= performance.now()
    switch (event.type) {
      case 'text':
        return [...this.#takeCall(), { text: event.text }]
      case 'reasoning':
        return [{ thinking: event.text }]
      case 'tool_call': {
        const ended = this.#takeCall()
        this.#call = { id: event.id, name: event.name, json: '' }
        return ended
      }
      case 'tool_arguments':
        this.#call!.json += event.text
        return []
      case 'finish':
        this.#finish = event
        return this.#takeCall()
    }
  }

  /** A truncated call has no valid arguments, and is left out. */
  #takeCall(): Pick<SaidBody, 'toolCalls'>[] {
    if (this.#call === null) return []
    const { id, name, json } = this.#call
    this.#call = null
    const index = this.#calls++
    const values = parseToWrite(json, undefined)
    return values === undefined ? [] : [{ toolCalls: [{ id, function: { index, name, arguments: values } }] }]
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

export function nanoseconds(milliseconds: number): number {
  return Math.round(milliseconds * 1e6)
}

function logProbsOf({ logProbs }: ReplyEvent): Pick<LineBody, 'logprobs'> {
  return logProbs === undefined ? {} : { logprobs: toLogProbBodies(logProbs) }
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
