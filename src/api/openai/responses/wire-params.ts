import { ApiError } from '../../../lib/errors.ts'
import type { ChatPlaces } from './response-request.ts'

/** Parameters of a chat that a response has under other names. */
const NAMES: Readonly<Record<string, string>> = {
  messages: 'input',
  'response_format.json_schema.schema': 'text.format.schema',
  response_format: 'text.format',
  reasoning_effort: 'reasoning.effort',
  logprobs: 'top_logprobs',
}

/** Names the parameter at fault, and in the message too, as this wire does. */
export function withWireParam(error: unknown, places: ChatPlaces): unknown {
  if (!(error instanceof ApiError) || error.param === null) return error
  const param = wireParam(error.param, places)
  if (param === error.param) return error
  const { status, type, code, retryAfter, cause } = error
  return new ApiError(renamed(error.message, error.param, param), {
    status,
    type,
    code,
    cause,
    param,
    ...(retryAfter === undefined ? {} : { retryAfter }),
  })
}

function wireParam(param: string, { messages, tools }: ChatPlaces): string {
  const tool = /^tools\[(\d+)\]\.function\.(.+)$/.exec(param)
  if (tool) return `tools[${tools[Number(tool[1])]}].${tool[2]}`
  const [, index, rest] = /^messages\[(\d+)\](.*)$/.exec(param) ?? []
  if (index === undefined) return NAMES[param] ?? param
  const place = messages[Number(index)]!
  if (!place.own) return place.param
  const call = /^\.tool_calls\[(\d+)\]\.function(\.\w+)$/.exec(rest!)
  if (call) return `${place.calls[Number(call[1])]}${call[2]}`
  const part = /^\.content\[(\d+)\](.*)$/.exec(rest!)
  if (part) {
    const source = place.sources[Number(part[1])] ?? null
    return `${place.param}.${place.field}[${part[1]}]${source === null ? part[2] : `.${source}`}`
  }
  if (rest === '.content') return `${place.param}.${place.field}`
  return `${place.param}${rest!.replace('.tool_call_id', '.call_id')}`
}

function renamed(message: string, from: string, to: string): string {
  return message.replaceAll(from, to).replaceAll('response_format', 'text.format')
}
