import { expect } from 'vitest'
import type { Engine } from '../../src/inference/contract/engine.ts'
import type { PromptPart } from '../../src/inference/contract/parts.ts'
import type { Work } from '../../src/inference/contract/work.ts'
import { jsonOf } from './server.ts'

/** A response of `POST /v1/chat/completions`. */
export interface Completion {
  readonly choices: readonly {
    readonly index: number
    readonly message: Message
    readonly finish_reason: string | null
  }[]
  readonly usage: { readonly prompt_tokens: number; readonly completion_tokens: number } | null
}

export interface Message {
  readonly role: string
  readonly content: string | null
  readonly reasoning_content?: string
  readonly tool_calls?: readonly ToolCall[]
}

interface ToolCall {
  readonly id: string
  readonly type: string
  readonly function: { readonly name: string; readonly arguments: string }
}

export interface Chunk {
  readonly choices: readonly {
    readonly delta: {
      readonly role?: string
      readonly content?: string
      readonly reasoning_content?: string
      readonly tool_calls?: readonly (Partial<Omit<ToolCall, 'function'>> & {
        readonly index: number
        readonly function?: Partial<ToolCall['function']>
      })[]
    }
    readonly finish_reason: string | null
  }[]
  readonly usage?: Completion['usage']
}

export async function replyOf(response: Response): Promise<Completion> {
  expect(response.status).toBe(200)
  return jsonOf<Completion>(response)
}

/** The chunks of a stream. Checks that it ends with `[DONE]`. */
export async function chunksOf(response: Response): Promise<Chunk[]> {
  expect(response.status).toBe(200)
  const events = (await response.text()).split('\n\n').filter((event) => event.startsWith('data: '))
  expect(events.pop()).toBe('data: [DONE]')
  return events.map((event) => JSON.parse(event.slice('data: '.length)))
}

/** Joins the chunks of a stream into a message. */
export function messageOf(chunks: readonly Chunk[]): Message {
  let content = ''
  let reasoning = ''
  const calls: { id: string; type: string; function: { name: string; arguments: string } }[] = []
  for (const { choices } of chunks) {
    const delta = choices[0]?.delta ?? {}
    content += delta.content ?? ''
    reasoning += delta.reasoning_content ?? ''
    for (const { index, id, type, function: called } of delta.tool_calls ?? []) {
      // Only the first chunk of a call has its id, type and name.
      if (calls[index] === undefined) {
        calls[index] = { id: id!, type: type!, function: { name: called!.name!, arguments: '' } }
      } else expect([id, type, called?.name]).toEqual([undefined, undefined, undefined])
      calls[index].function.arguments += called?.arguments ?? ''
    }
  }
  return {
    role: 'assistant',
    content: content === '' && calls.length > 0 ? null : content,
    ...(reasoning === '' ? {} : { reasoning_content: reasoning }),
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
  }
}

/** The text of the latest prompt. */
export function promptText({ works }: { readonly works: readonly Work[] } & Pick<Engine, 'info'>): string {
  return works.at(-1)!.prefix.map(textOf).join('')
}

export function textOf(part: PromptPart): string {
  return part.type === 'text' ? part.text : '[picture]'
}
