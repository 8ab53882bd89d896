import { type Parameter, parametersOf, type Tool } from '../request/tool.ts'
import {
  type BlockCall,
  BlockCallReader,
  literalOf,
  objectText,
  SCALAR_RULES,
  SCALARS,
  textWithout,
} from './block-call.ts'
import { parseJson } from './json-call.ts'
import type { ToolSyntax } from './syntax.ts'

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
  const types = new Map(tool ? parametersOf(tool).map(({ name, types }) => [name, types]) : [])
  const members = [...call[2]!.matchAll(PARAMETER)].map(
    ([, key, value]) => [key!, jsonOf(value!, types.get(key!) ?? null)] as const,
  )
  // Of a parameter that is written twice the last one counts, as in JSON.
  return { name, arguments: objectText([...new Map(members)]) }
}

/** The value of a parameter is text if it may be a string, and JSON otherwise. */
function jsonOf(text: string, types: readonly string[] | null): string {
  const value = parseJson(text)
  const isJson = value !== undefined && typeof value !== 'string'
  const mayBeString = types?.includes('string') ?? !isJson
  if (isJson && (!mayBeString || (value === null && types?.includes('null')))) return text.trim()
  return JSON.stringify(text)
}

/** The parameters in their order, those that are required for sure. */
function parametersGrammar(tool: Tool): string {
  const parameters = parametersOf(tool)
    .filter(({ name }) => !/[>\n]/.test(name))
    .map((parameter) => {
      const { name, required } = parameter
      const value = valueRule(parameter)
      const written = `(${literalOf(`<parameter=${name}>\n`)} ${value} ${literalOf(`${VALUE_END}\n`)})`
      return required ? written : `("" | ${written})`
    })
  return `root ::= ${parameters.length === 0 ? '""' : parameters.join(' ')}\n${SCALAR_RULES}\n${textWithout(VALUE_END, 'text')}`
}

function valueRule({ types, texts }: Parameter): string {
  if (texts !== null) return `(${texts.map(literalOf).join(' | ')})`
  const rules = types?.map((type) => SCALARS[type] ?? 'text') ?? ['text']
  return rules.includes('text') ? 'text' : `(${rules.join(' | ')})`
}
