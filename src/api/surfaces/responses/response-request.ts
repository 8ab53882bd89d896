import type { Compatibility } from '../../../config/compatibility.ts'
import type { ChatRequest, Structure } from '../../../conversation/request/chat-request.ts'
import { invalidRequest } from '../../../lib/errors/errors.ts'
import type { ReadBody } from '../../http/body/body-reader.ts'
import { allowedOf, structureOfObject, toTools } from '../openai/chat-request.ts'
import { toReplyOptions } from '../openai/reply-options.ts'
import { type FileParts, type MessagePlace, type PlacedItem, toMessages } from './input-messages.ts'
import { paramNames } from './param-names.ts'
import {
  functionsOf,
  type PlacedFunction,
  type ResponsePromptBody,
  type ResponseRequestBody,
  wantsLogProbs,
} from './wire/response-request.ts'

export interface ChatSource {
  /** The conversation: the items of earlier responses, then those of the request. */
  readonly items: readonly PlacedItem[]
  readonly files: FileParts
  readonly compatibility: Compatibility
}

const INSTRUCTIONS: MessagePlace = { param: ['instructions'], own: false, field: 'content', sources: [], calls: [] }

/** @throws ApiError for fields that exclude each other. */
export function toChat(
  { value: body, rawParameters }: ReadBody<ResponseRequestBody>,
  { items, files, compatibility }: ChatSource,
): ChatRequest {
  const turns = toMessages(items, files)
  const { instructions } = body
  const messages = turns.map(({ message }) => message)
  const places = turns.map(({ place }) => place)
  if (instructions) {
    messages.unshift({ role: 'system', content: instructions })
    places.unshift(INSTRUCTIONS)
  }
  const tools = toolsOf(body)
  const rated = wantsLogProbs(body)
  return {
    ...toReplyOptions({
      ...body,
      reasoning_effort: body.reasoning?.effort ?? null,
      logprobs: rated,
      top_logprobs: rated ? (body.top_logprobs ?? 0) : null,
    }),
    maxTokens: body.max_output_tokens ?? null,
    messages,
    tools: toTools(tools, rawParameters),
    toolUse: { choice: choiceOf(body), parallel: body.parallel_tool_calls ?? true },
    structure: structureOf(body, compatibility),
    streamed: body.stream === true,
    names: paramNames(
      places,
      tools.map(({ place }) => place),
    ),
  }
}

/** Returns the functions that the model may call. @throws ApiError 400 for an unknown name, and when none is left. */
function toolsOf(body: ResponsePromptBody): PlacedFunction[] {
  const functions = functionsOf(body.tools ?? [])
  const { tool_choice: choice } = body
  if (typeof choice !== 'object' || choice?.type !== 'allowed_tools') return functions
  const known = knownNames(functions)
  const names = choice.tools.map(({ type, name }) => {
    return type === 'function' ? (known.get(name ?? '') ?? name ?? '') : null
  })
  const allowed = allowedOf(functions, names, ['tool_choice', 'tools'])
  if (allowed.length === 0 && functions.length > 0) {
    throw invalidRequest('tool_choice allows no function that is in tools', ['tool_choice', 'tools'])
  }
  return allowed
}

function choiceOf({ tools, tool_choice: choice }: ResponsePromptBody): ChatRequest['toolUse']['choice'] {
  if (typeof choice !== 'object' || choice === null) return choice ?? 'auto'
  if (choice.type !== 'function') return choice.mode
  return { name: knownNames(functionsOf(tools ?? [])).get(choice.name) ?? choice.name }
}

/** Names by which the model knows functions. OpenAI's clients choose those in namespaces as `namespace.function`. */
function knownNames(functions: readonly PlacedFunction[]): ReadonlyMap<string, string> {
  const names = new Map(functions.map(({ tool }) => [tool.name, tool.name]))
  for (const { tool, called } of functions) {
    const name = `${called.namespace}.${called.name}`
    if (called.namespace !== undefined && !names.has(name)) names.set(name, tool.name)
  }
  return names
}

function structureOf({ text }: ResponsePromptBody, compatibility: Compatibility): Structure | null {
  const format = text?.format
  if (format?.type === 'json_schema') return { type: 'json_schema', schema: format.schema }
  if (format?.type !== 'json_object') return null
  if (compatibility === 'openai') return structureOfObject(format.schema)
  throw invalidRequest(
    "Invalid 'text.format.type': expected one of 'text', 'json_schema'",
    ['text', 'format', 'type'],
    {
      code: 'unsupported_response_format',
    },
  )
}
