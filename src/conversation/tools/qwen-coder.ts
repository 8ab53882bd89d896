import { memberTypes, type ValueTypes } from '../../inference/constraints/value-types.ts'
import type { Notation } from '../../inference/engine.ts'
import { argumentsSchema, type Tool } from '../request/tool.ts'
import { type BlockCall, BlockCallReader, objectText } from './block-call.ts'
import { parseJson } from './json-call.ts'
import type { ToolSyntax } from './syntax.ts'

const BEGIN = '<tool_call>'
const END = '</tool_call>'
const FUNCTION_END = '</function>'
const VALUE_END = '</parameter>'
const NOTATION: Notation = {
  without: [VALUE_END, FUNCTION_END],
  member: { begin: '<parameter=', between: '>\n', end: `\n${VALUE_END}\n` },
}

/** `<tool_call>\n<function=f>\n<parameter=x>\n…\n</parameter>\n</function>\n</tool_call>`: Qwen3-Coder, Qwen3.5 and later. */
export const qwenCoder: ToolSyntax = {
  begin: BEGIN,
  marks: [BEGIN, END, '<tool_response>', '</tool_response>'],
  readCall: (tools) =>
    new BlockCallReader({
      end: END,
      closes: (text) => text.trimEnd().endsWith(FUNCTION_END),
      translate: (text) => translate(text, tools),
    }),
  constraint: (tools, single) => ({
    type: 'triggered_tags',
    triggers: [BEGIN],
    tags: tools.map((tool) => ({
      begin: `${BEGIN}\n<function=${tool.name}>\n`,
      content: { type: 'json_schema', schema: argumentsSchema(tool), lenient: true, notation: NOTATION },
      end: `${FUNCTION_END}\n${END}`,
    })),
    stopAfterFirst: single,
  }),
}

const CALL = /^\s*<function=([^>\n]+)>(.*)<\/function>\s*$/s
const PARAMETER = /<parameter=([^>\n]+)>\n?(.*?)\n?<\/parameter>/gs

function translate(text: string, tools: readonly Tool[]): BlockCall | null {
  const call = CALL.exec(text)
  if (!call) return null
  const name = call[1]!
  const tool = tools.find((other) => other.name === name)
  const typesOf = memberTypes(tool && argumentsSchema(tool))
  const members = [...call[2]!.matchAll(PARAMETER)].map(
    ([, key, value]) => [key!, jsonOf(value!, typesOf(key!))] as const,
  )
  // Of a parameter that is written twice the last one counts, as in JSON.
  return { name, arguments: objectText([...new Map(members)]) }
}

/** The value of a parameter is text if it may be a string, and JSON otherwise. */
function jsonOf(text: string, types: ValueTypes): string {
  const value = parseJson(text)
  const isJson = value !== undefined && typeof value !== 'string'
  const mayBeString = types?.includes('string') ?? !isJson
  if (isJson && (!mayBeString || (value === null && types?.includes('null')))) return text.trim()
  return JSON.stringify(text)
}
