import type { ChatRequest, Structure } from '../../../conversation/request/chat-request.ts'
import type { ContentPart, Message } from '../../../conversation/request/message.ts'
import type { ReplyOptions } from '../../../conversation/request/reply-options.ts'
import { invalidRequest } from '../../../lib/errors/errors.ts'
import { type Names, namesOf, type Path, within } from '../../../lib/errors/param.ts'
import { getOrMake } from '../../../lib/get-or-make.ts'
import type { ReadBody } from '../../http/body/body-reader.ts'
import { dataUrl } from '../data-url.ts'
import { toTools, typeOfData } from '../openai/chat-request.ts'
import { toReplyOptions } from '../openai/reply-options.ts'
import type { ChatBody, GenerateBody, MessageBody, ReplyBody } from './wire/requests.ts'

/** @returns null for a request without messages, which only loads a model. */
export function fromChat({ value: body, rawParameters }: ReadBody<ChatBody>): ChatRequest | null {
  const messages = body.messages ?? []
  if (messages.length === 0) return null
  return {
    ...repliesTo(body),
    messages: toMessages(messages),
    names: paramNames(messages),
    tools: toTools(
      (body.tools ?? []).map(({ function: tool }, index) => ({ tool, index })),
      rawParameters,
    ),
  }
}

/** @returns null for a request without a prompt, which only loads a model. */
export function fromGenerate({ value: body }: ReadBody<GenerateBody>): ChatRequest | null {
  const { prompt, system, images } = body
  if (!prompt && !images?.length) return null
  const said: MessageBody = { role: 'user', content: prompt, images }
  const asked = system ? [{ role: 'system', content: system } as const] : []
  return {
    ...repliesTo(body),
    messages: toMessages([...asked, said]),
    names: generateNames(said, asked.length),
    tools: [],
  }
}

/** Options whose names here differ from the conversation's. */
const OPTIONS = namesOf([
  [['response_format', 'json_schema', 'schema'], ['format']],
  [['response_format', 'type'], ['format']],
  [['response_format'], ['format']],
  [['reasoning_effort'], ['think']],
  [['max_completion_tokens'], ['options', 'num_predict']],
])

/** Maps the conversation's parameters to those of a chat, whose messages have images beside their text. */
function paramNames(messages: readonly MessageBody[]): Names {
  return (path) => {
    const [list, index, ...rest] = path
    if (list !== 'messages' || typeof index !== 'number') return OPTIONS(path)
    return [list, index, ...pathWithin(messages[index]!, rest)]
  }
}

/** Maps the conversation's parameters to those of a generate request, which has no list of messages. */
function generateNames(said: MessageBody, asked: number): Names {
  return (path) => {
    const [list, index, ...rest] = path
    if (list !== 'messages') return OPTIONS(path)
    if (typeof index === 'number' && index < asked) return ['system']
    const inside = pathWithin(said, rest)
    return inside[0] === 'images' ? inside : ['prompt']
  }
}

/** Images come before the text, as in Ollama's templates. */
function pathWithin({ images }: MessageBody, path: Path): Path {
  const [key, index] = path
  if (key !== 'content' || typeof index !== 'number') return path
  return index < (images ?? []).length ? ['images', index] : ['content']
}

/** A `top_p` that keeps only one token, as 0 does in Ollama. */
const LEAST_TOP_P = 1e-6

function repliesTo(body: ReplyBody): Omit<ChatRequest, 'messages' | 'tools'> {
  const { num_predict: most, stop, repeat_penalty: repetition_penalty, ...options } = body.options ?? {}
  return {
    ...toReplyOptions({
      ...options,
      repetition_penalty,
      top_p: Math.max(LEAST_TOP_P, options.top_p ?? 1),
      max_completion_tokens: typeof most === 'number' && most >= 0 ? most : null,
      logprobs: body.logprobs,
      top_logprobs: body.top_logprobs,
    }),
    toolUse: { choice: 'auto', parallel: true },
    structure: structureOf(body),
    stops: typeof stop === 'string' ? [stop] : (stop ?? []),
    streamed: body.stream !== false,
    clampsTokens: true,
    reasoningEffort: effortOf(body),
  }
}

function effortOf({ think }: ReplyBody): ReplyOptions['reasoningEffort'] {
  if (typeof think !== 'string') return think ? 'medium' : 'none'
  return think === 'max' ? 'high' : think
}

function structureOf({ format }: ReplyBody): Structure | null {
  if (!format) return null
  return format === 'json' ? { type: 'json_object' } : { type: 'json_schema', schema: format }
}

function toMessages(messages: readonly MessageBody[]): Message[] {
  const calls = new Calls()
  // Clients that truncate the beginning of a conversation, such as Home Assistant, may leave results without their
  // calls. Ollama shows them to the model.
  const begins = messages.findIndex(({ role }) => role !== 'system' && role !== 'tool')
  return messages.map((message, index) =>
    toMessage(
      index < begins && message.role === 'tool' ? { ...message, role: 'user' } : message,
      ['messages', index],
      calls,
    ),
  )
}

function toMessage(message: MessageBody, param: Path, calls: Calls): Message {
  const { role, content, images, thinking } = message
  switch (role) {
    case 'system':
      return { role, content: content ?? '' }
    case 'user':
      return { role, content: partsOf(content, images) }
    case 'assistant': {
      const made = (message.tool_calls ?? []).map((call) => calls.make(call))
      const said = content || (made.length > 0 ? null : '')
      return { role, content: said, reasoning_content: thinking || null, tool_calls: made }
    }
    case 'tool':
      return { role, tool_call_id: calls.answer(message, param), content: partsOf(content, images) }
  }
}

/** Tracks the ids of calls. Older versions have no ids for calls and results: results then answer the calls in order. */
class Calls {
  readonly #all = new OpenCalls()
  readonly #byId = new Map<string, OpenCalls>()
  readonly #byName = new Map<string, OpenCalls>()
  #made = 0

  make({ id: given, function: { name, arguments: text } }: NonNullable<MessageBody['tool_calls']>[number]) {
    const id = given || `call_${this.#made++}`
    const call = { id, isAnswered: false }
    this.#all.add(call)
    callsOf(this.#byId, id).add(call)
    callsOf(this.#byName, name).add(call)
    return { id, function: { name, arguments: text } }
  }

  /** Returns the id of the call that a result answers. */
  answer({ tool_call_id: id, tool_name: name }: MessageBody, param: Path): string {
    const open = id ? callsOf(this.#byId, id) : name ? callsOf(this.#byName, name) : this.#all
    const answered = open.takeFirst()
    // A result with an id is checked with the other messages.
    if (id) return id
    if (answered) return answered.id
    const [at, wanted] = name ? [within(param, 'tool_name'), `call of '${name.slice(0, 100)}'`] : [param, 'tool call']
    throw invalidRequest(`No earlier assistant message has a ${wanted} without a result`, at, {
      code: 'invalid_tool_result',
    })
  }
}

interface OpenCall {
  readonly id: string
  isAnswered: boolean
}

/** Yields calls in order, and skips those that were answered by name. */
class OpenCalls {
  readonly #calls: OpenCall[] = []
  #next = 0

  add(call: OpenCall): void {
    this.#calls.push(call)
  }

  takeFirst(): OpenCall | undefined {
    while (this.#calls[this.#next]?.isAnswered) this.#next++
    const first = this.#calls[this.#next]
    if (first) first.isAnswered = true
    return first
  }
}

function callsOf(lists: Map<string, OpenCalls>, key: string): OpenCalls {
  return getOrMake(lists, key, () => new OpenCalls())
}

/** An image's type is detected from its bytes. PDFs are sent as images, because there is no other field for them. */
function partsOf(content: string | null | undefined, images: MessageBody['images']): ContentPart[] {
  return [
    ...(images ?? []).map(
      (data): ContentPart =>
        typeOfData(data) === 'application/pdf'
          ? { type: 'file', file: { file_data: dataUrl(data) } }
          : { type: 'image_url', image_url: { url: dataUrl(data) } },
    ),
    { type: 'text', text: content ?? '' },
  ]
}
