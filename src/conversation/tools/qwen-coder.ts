import { type BlockCall, BlockCallReader, literalOf, objectText, textWithout } from './block-call.ts'
import { parseJson } from './json-call.ts'
import type { ToolSyntax } from './syntax.ts'
import { argumentsSchema, type Tool } from './tool.ts'

const BEGIN = '<tool_call>'
const END = '</tool_call>'
const VALUE_END = '\n</parameter>'

/** `<tool_call>\n<function=f>\n<parameter=x>\n…\n</parameter>\n</function>\n</tool_call>`: Qwen3-Coder, Qwen3.5 and later. */
export const qwenCoder: ToolSyntax = {
  begin: BEGIN,
  marks: [BEGIN, END, '<tool_response>', '</tool_response>'],
  readCall: (tools) =>
    new BlockCallReader({
      end: END,
      closes: (text) => text.trimEnd().endsWith('</function>'),
      translate: (text) => translate(text, tools),
    }),
  constraint: (tools, single) => ({
    type: 'triggered_tags',
    triggers: [BEGIN],
    tags: tools.map((tool) => ({
      begin: `${BEGIN}\n<function=${tool.name}>\n`,
      content: { type: 'grammar', ebnf: parametersGrammar(tool) },
      end: `</function>\n${END}`,
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
  const types = tool ? typesOf(tool) : new Map<string, readonly string[]>()
  const members = [...call[2]!.matchAll(PARAMETER)].map(
    ([, key, value]) => [key!, jsonOf(value!, types.get(key!))] as const,
  )
  // Of a parameter that is written twice the last one counts, as in JSON.
  return { name, arguments: objectText([...new Map(members)]) }
}

/** The value of a parameter is text if it may be a string, and JSON otherwise. */
function jsonOf(text: string, types: readonly string[] | undefined): string {
  const value = parseJson(text)
  const isJson = value !== undefined && typeof value !== 'string'
  const mayBeString = types?.includes('string') ?? !isJson
  if (isJson && (!mayBeString || (value === null && types?.includes('null')))) return text.trim()
  return JSON.stringify(text)
}

/** The types that a schema gives to each parameter; those that it leaves open are left out. */
function typesOf(tool: Tool): Map<string, readonly string[]> {
  const types = new Map<string, readonly string[]>()
  for (const [key, schema] of Object.entries(propertiesOf(tool))) {
    const { type } = (schema ?? {}) as { type?: unknown }
    if (typeof type === 'string') types.set(key, [type])
    else if (Array.isArray(type)) types.set(key, type)
  }
  return types
}

function propertiesOf(tool: Tool): Record<string, unknown> {
  const { properties } = argumentsSchema(tool) as { properties?: unknown }
  return typeof properties === 'object' && properties !== null ? (properties as Record<string, unknown>) : {}
}

/** Any of the parameters in their order, those that are required for sure. */
function parametersGrammar(tool: Tool): string {
  const { required } = argumentsSchema(tool) as { required?: unknown }
  const needed = new Set(Array.isArray(required) ? required : [])
  const names = Object.keys(propertiesOf(tool)).filter((name) => !/[>\n]/.test(name))
  const parameters = names.map((name) => {
    const written = `(${literalOf(`<parameter=${name}>\n`)} value ${literalOf(`${VALUE_END}\n`)})`
    return needed.has(name) ? written : `("" | ${written})`
  })
  return `root ::= ${parameters.length === 0 ? '""' : parameters.join(' ')}\n${textWithout(VALUE_END, 'value')}`
}
