import { type Names, namesOf, type Path } from '../../../lib/errors/param.ts'
import type { MessagePlace } from './turns.ts'

/** Options whose names here differ from the conversation's. */
const OPTIONS = namesOf([
  [['reasoning_effort'], ['thinking']],
  [['max_completion_tokens'], ['max_tokens']],
])

/**
 * Maps the parameters of a chat to those of its request.
 * @param messages each chat message's place in the request.
 * @param tools each chat tool's index in the request.
 * @param format the parameter with the reply's format, which also has an older name.
 */
export function paramNames(messages: readonly MessagePlace[], tools: readonly number[], format: Path): Names {
  const formatNames = namesOf([
    [['response_format', 'json_schema'], format],
    // There is only one type, so errors need not name it.
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
  if (key !== 'content' || rest.length === 0) return part
  // An image or a document has one source, whose form differs in a chat.
  return [...part, rest[1] === 'pages' ? 'pages' : 'source']
}

/** A tool has the fields of its function; the schema has another name. */
function toolPath(index: number, [, field, ...rest]: Path): Path {
  const named = field === undefined ? [] : [field === 'parameters' ? 'input_schema' : field]
  return ['tools', index, ...named, ...rest]
}
