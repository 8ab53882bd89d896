import { type Names, namesOf, type Path } from '../../../lib/errors/param.ts'
import type { MessagePlace } from './input-messages.ts'

/** Parameters of a chat that have other names in a response. */
const OPTIONS = namesOf([
  [
    ['response_format', 'json_schema'],
    ['text', 'format'],
  ],
  [['response_format'], ['text', 'format']],
  [['reasoning_effort'], ['reasoning', 'effort']],
  [['max_completion_tokens'], ['max_output_tokens']],
  [['logprobs'], ['top_logprobs']],
  [['messages'], ['input']],
])

/**
 * Maps the parameters of a chat to those of a request for a response.
 * @param messages each chat message's place in the request.
 * @param tools each chat tool's place in the list of tools.
 */
export function paramNames(messages: readonly MessagePlace[], tools: readonly Path[]): Names {
  return (path) => {
    const [list, index, ...rest] = path
    if (typeof index !== 'number') return OPTIONS(path)
    if (list === 'messages') return messagePath(messages[index]!, rest)
    return list === 'tools' ? ['tools', ...tools[index]!, ...rest.slice(1)] : path
  }
}

function messagePath({ param, own, field, sources, calls }: MessagePlace, [key, index, ...rest]: Path): Path {
  if (!own || key === undefined) return param
  if (key === 'tool_call_id') return [...param, 'call_id']
  if (typeof index !== 'number') return [...param, field]
  // The path after `function` is the same here.
  if (key === 'tool_calls') return [...calls[index]!, ...rest.slice(1)]
  const source = sources[index] ?? null
  if (source === null || rest.length === 0) return [...param, field, index, ...rest]
  return [...param, field, index, rest[1] === 'pages' ? 'pages' : source]
}
