import { type Names, namesOf, type Path } from '../../../lib/param.ts'
import type { MessagePlace } from './turns.ts'

/** Options by their names here, where the conversation knows them by others. */
const OPTIONS = namesOf([
  [['reasoning_effort'], ['thinking']],
  [['max_completion_tokens'], ['max_tokens']],
])

/**
 * What a request calls the parameters of its chat.
 * @param messages where each message of the chat stands in the request.
 * @param tools of each tool of the chat, its index in the request.
 * @param format where the form of the reply stands, which has an older name too.
 */
export function paramNames(messages: readonly MessagePlace[], tools: readonly number[], format: Path): Names {
  const formatNames = namesOf([
    [['response_format', 'json_schema'], format],
    // There is but one type, which errors need not tell.
    [['response_format', 'type'], format],
    [['response_format'], format],
  ])
  return (path) => {
    const [list, index, ...rest] = path
    if (list === 'response_format') return formatNames(path)
    if (typeof index !== 'number') return OPTIONS(path)
    if (list === 'messages') return messagePath(messages[index]!, rest)
    return list === 'tools' ? toolPath(tools[index]!, rest) : path
  }
}

function messagePath({ param, parts, calls }: MessagePlace, [key, index = 0, ...rest]: Path): Path {
  if (key === 'tool_call_id') return [...param, 'tool_use_id']
  if (typeof index !== 'number') return param
  if (key === 'tool_calls') return [...calls[index]!, 'input']
  const part = parts[index] ?? param
  // An image has one source, whose form a chat writes otherwise.
  return key === 'content' && rest.length > 0 ? [...part, 'source'] : part
}

/** A tool has the fields of its function; the schema goes by another name. */
function toolPath(index: number, [, field, ...rest]: Path): Path {
  const named = field === undefined ? [] : [field === 'parameters' ? 'input_schema' : field]
  return ['tools', index, ...named, ...rest]
}
