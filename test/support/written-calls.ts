import { ChannelReader } from '../../src/conversation/reply/channel-reader.ts'
import type { TextStage } from '../../src/conversation/reply/reply-piece.ts'
import { ToolCallReader } from '../../src/conversation/reply/tool-call-reader.ts'
import type { Tool } from '../../src/conversation/request/tool.ts'
import type { ToolSyntax } from '../../src/conversation/tools/syntax.ts'
import type { ToolSyntaxName } from '../../src/families/tool-syntax.ts'

type Json = (value: unknown) => string
type Writer = (name: string, values: object, json: Json) => string

/** JSON as Python writes it. */
export function pythonJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(pythonJson).join(', ')}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  return `{${Object.entries(value)
    .map(([key, inner]) => `${JSON.stringify(key)}: ${pythonJson(inner)}`)
    .join(', ')}}`
}

function gemmaValue(value: unknown): string {
  if (typeof value === 'string') return `<|"|>${value}<|"|>`
  if (Array.isArray(value)) return `[${value.map(gemmaValue).join(',')}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  const key = (name: string) => (/[\s:]/.test(name) ? `<|"|>${name}<|"|>` : name)
  return `{${Object.entries(value)
    .map(([name, inner]) => `${key(name)}:${gemmaValue(inner)}`)
    .join(',')}}`
}

function pythonValue(value: unknown): string {
  if (value === null) return 'None'
  if (typeof value === 'boolean') return value ? 'True' : 'False'
  if (Array.isArray(value)) return `[${value.map(pythonValue).join(', ')}]`
  if (typeof value !== 'object') return JSON.stringify(value)
  return `{${Object.entries(value)
    .map(([key, inner]) => `${JSON.stringify(key)}: ${pythonValue(inner)}`)
    .join(', ')}}`
}

function pythonCall(name: string, values: object): string {
  const keyword = (key: string) => (/[\s"]/.test(key) ? JSON.stringify(key) : key)
  const given = Object.entries(values).map(([key, value]) => `${keyword(key)}=${pythonValue(value)}`)
  return `${name}(${given.join(', ')})`
}

/** Strings as they are, everything else as JSON. */
function members(values: object, json: Json, write: (key: string, text: string, isString: boolean) => string): string {
  return Object.entries(values)
    .map(([key, value]) => write(key, typeof value === 'string' ? value : json(value), typeof value === 'string'))
    .join('')
}

const keyed =
  (line: string, suffix = ''): Writer =>
  (name, values, json) => {
    const tag = (label: string) => `<${label}${suffix}>`
    const pairs = members(
      values,
      json,
      (key, text) =>
        `${tag('arg_key')}${key}${tag('/arg_key')}${line}${tag('arg_value')}${text}${tag('/arg_value')}${line}`,
    )
    return `${tag('tool_call')}${name}${suffix === '' ? '' : tag('tool_sep')}${line}${pairs}${tag('/tool_call')}`
  }

const dsml =
  (section: string): Writer =>
  (name, values, json) => {
    const given = members(
      values,
      json,
      (key, text, isString) => `<｜DSML｜parameter name="${key}" string="${isString}">${text}</｜DSML｜parameter>\n`,
    )
    return `<｜DSML｜${section}>\n<｜DSML｜invoke name="${name}">\n${given}</｜DSML｜invoke>\n</｜DSML｜${section}>`
  }

const named = (name: string, values: object, json: Json) => `{"name": "${name}", "arguments": ${json(values)}}`

/** A call in each syntax, as models of that kind are trained to write it. */
export const CALL_WRITERS: Readonly<Record<ToolSyntaxName, Writer>> = {
  hermes: (name, values, json) => `<tool_call>\n${named(name, values, json)}\n</tool_call>`,
  llama3: (name, values, json) => `{"name": "${name}", "parameters": ${json(values)}}`,
  mistral: (name, values, json) => `[TOOL_CALLS]${name}[ARGS]${json(values)}`,
  qwen3_coder: (name, values, json) => {
    const given = members(values, json, (key, text) => `<parameter=${key}>\n${text}\n</parameter>\n`)
    return `<tool_call>\n<function=${name}>\n${given}</function>\n</tool_call>`
  },
  gemma4: (name, values) => `<|tool_call>call:${name}${gemmaValue(values)}<tool_call|>`,
  glm45: keyed('\n'),
  glm47: keyed(''),
  lfm2: (name, values) => `<|tool_call_start|>[${pythonCall(name, values)}]<|tool_call_end|>`,
  harmony: (name, values, json) =>
    `<|channel|>commentary to=functions.${name} <|constrain|>json<|message|>${json(values)}`,
  kimi_k2: (name, values, json) =>
    `<|tool_calls_section_begin|><|tool_call_begin|>functions.${name}:0<|tool_call_argument_begin|>${json(values)}<|tool_call_end|><|tool_calls_section_end|>`,
  deepseek_v3: (name, values, json) =>
    `<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>${name}\n\`\`\`json\n${json(values)}\n\`\`\`<｜tool▁call▁end｜><｜tool▁calls▁end｜>`,
  deepseek_v31: (name, values, json) =>
    `<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>${name}<｜tool▁sep｜>${json(values)}<｜tool▁call▁end｜><｜tool▁calls▁end｜>`,
  deepseek_v32: dsml('function_calls'),
  deepseek_v4: dsml('tool_calls'),
  minimax_m1: (name, values, json) => `<tool_calls>\n${named(name, values, json)}\n</tool_calls>`,
  minimax_m2: (name, values, json) => {
    const given = members(values, json, (key, text) => `<parameter name="${key}">${text}</parameter>\n`)
    return `<minimax:tool_call>\n<invoke name="${name}">\n${given}</invoke>\n</minimax:tool_call>`
  },
  seed_oss: (name, values, json) => {
    const given = members(values, json, (key, text) => `<parameter=${key}>${text}</parameter>\n`)
    return `<seed:tool_call>\n<function=${name}>\n${given}</function>\n</seed:tool_call>`
  },
  hunyuan: (name, values, json) => `<tool_calls>[${named(name, values, json)}]</tool_calls>`,
  hy3: (name, values, json) =>
    `<tool_calls:opensource>\n${keyed('\n', ':opensource')(name, values, json)}\n</tool_calls:opensource>`,
  minicpm5: (name, values, json) => {
    const given = members(values, json, (key, text) => `<param name="${key}">${text}</param>`)
    return `<function name="${name}">${given}</function>`
  },
  cohere: (name, values, json) =>
    `<|START_ACTION|>[\n    {"tool_call_id": "0", "tool_name": "${name}", "parameters": ${json(values)}}\n]<|END_ACTION|>`,
  granite: (name, values, json) => `<|tool_call|>[${named(name, values, json)}]`,
  nemotron: (name, values, json) => `<TOOLCALL>[${named(name, values, json)}]</TOOLCALL>`,
  apertus: (name, values, json) => `<|tools_prefix|>[{"${name}": ${json(values)}}]<|tools_suffix|>`,
  functools: (name, values, json) => `functools[${named(name, values, json)}]`,
  functionary: (name, values, json) => `<function=${name}>${json(values)}</function>`,
  gigachat3: (name, values, json) => `<|function_call|>${named(name, values, json)}`,
  olmo3: (name, values) => `<function_calls>${pythonCall(name, values)}</function_calls>`,
}

/** Reads one call of these tools, and no second one. */
export function callReader(syntax: ToolSyntax, tools: readonly Tool[]): TextStage {
  const options = { tools, single: true, newId: () => 'id' }
  const inChannels = { ...options, inAnswer: false, hasThought: false, showsThoughts: true }
  return syntax.answer ? new ChannelReader(inChannels) : new ToolCallReader({ ...options, syntax })
}
