import type { ReplyEvent } from '../../conversation/reply/reply.ts'
import { toLogProbs } from '../openai/log-probs.ts'
import type { EndBody, LineBody, LogProbBody, SaidBody, ToolCallBody } from './wire/responses.ts'

/** How what was said stands in a line: chats and completions differ in that alone. */
export type Shape = (said: SaidBody) => object

interface OpenCall {
  readonly id: string
  readonly name: string
  json: string
}

/** Writes the lines of one reply. A call of a tool is written when it is complete. */
export class ReplyLines {
  readonly #model: string
  readonly #shape: Shape
  readonly #began = performance.now()
  #firstAt: number | null = null
  #call: OpenCall | null = null
  #calls = 0

  constructor(model: string, shape: Shape) {
    this.#model = model
    this.#shape = shape
  }

  of(event: ReplyEvent): object[] {
    this.#firstAt ??= performance.now()
    const logprobs = event.logProbs === undefined ? {} : { logprobs: toLogProbBodies(event.logProbs) }
    switch (event.type) {
      case 'text':
        return [...this.#endCall(), this.#line({ text: event.text }, { done: false, ...logprobs })]
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
      case 'finish':
        return [...this.#endCall(), this.#line({}, { ...this.#end(event), ...logprobs })]
    }
  }

  /** The reply to a request that says nothing. */
  loaded(): object {
    return this.#line({}, { done: true, done_reason: 'load' })
  }

  async whole(events: AsyncIterable<ReplyEvent>): Promise<object> {
    let text = ''
    let thinking = ''
    const toolCalls: ToolCallBody[] = []
    const logprobs: LogProbBody[] = []
    for await (const event of events) {
      this.#firstAt ??= performance.now()
      logprobs.push(...toLogProbBodies(event.logProbs ?? []))
      if (event.type === 'text') text += event.text
      else if (event.type === 'reasoning') thinking += event.text
      else if (event.type === 'tool_arguments') this.#call!.json += event.text
      else {
        toolCalls.push(...this.#takeCall())
        if (event.type === 'tool_call') this.#call = { id: event.id, name: event.name, json: '' }
        else {
          const told = logprobs.length === 0 ? {} : { logprobs }
          return this.#line({ text, thinking, toolCalls }, { ...this.#end(event), ...told })
        }
      }
    }
    throw new Error('A reply ended without a finish event')
  }

  #endCall(): object[] {
    const toolCalls = this.#takeCall()
    return toolCalls.length === 0 ? [] : [this.#line({ toolCalls }, { done: false })]
  }

  /** A call that was cut off has no arguments that could be written, and is left out. */
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

  #end({ reason, usage }: Extract<ReplyEvent, { type: 'finish' }>): EndBody {
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

/** A line of `/api/chat`. */
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

/** A line of `/api/generate`. */
export function generateShape({ text, thinking }: SaidBody): object {
  return { response: text, ...(thinking === '' ? {} : { thinking }) }
}
