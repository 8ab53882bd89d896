import { type Names, namesOf, type Path } from '../../../lib/param.ts'
import type { MessagePlace } from './input-messages.ts'

/** Parameters of a chat that a response has under other names. */
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
 * What a request for a response calls the parameters of its chat.
 * @param messages where each message of the chat stands in the request.
 * @param tools of each tool of the chat, its index in the request.
 */
export function paramNames(messages: readonly MessagePlace[], tools: readonly number[]): Names {
  return (path) => {
    const [list, index, ...rest] = path
    if (typeof index !== 'number') return OPTIONS(path)
    if (list === 'messages') return messagePath(messages[index]!, rest)
    return list === 'tools' ? ['tools', tools[index]!, ...rest.slice(1)] : path
  }
}

function messagePath({ param, own, field, sources, calls }: MessagePlace, [key, index, ...rest]: Path): Path {
  if (!own || key === undefined) return param
  if (key === 'tool_call_id') return [...param, 'call_id']
  if (typeof index !== 'number') return [...param, field]
  // What is behind `function` is the same here.
  if (key === 'tool_calls') return [...calls[index]!, ...rest.slice(1)]
  const source = sources[index] ?? null
  return [...param, field, index, ...(source === null || rest.length === 0 ? rest : [source])]
}
