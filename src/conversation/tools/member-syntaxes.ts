import { memberTypes, type ValueTypes } from '../../inference/constraints/schema/value-types.ts'
import type { Notation } from '../../inference/contract/constraint.ts'
import { parseJsonOr } from '../../lib/json/parse-json.ts'
import { argumentsSchema, type Tool } from '../request/tool.ts'
import { type BlockCall, BlockCallReader, objectText } from './block-call.ts'
import { type CallLayout, callConstraint } from './call-layout.ts'
import type { ToolSyntax } from './syntax.ts'

/** A syntax whose arguments are a list of names and values between marks. Strings are written without quotes. */
interface Options {
  readonly begin: string
  readonly around?: readonly string[]
  readonly marks: readonly string[]
  readonly section?: NonNullable<CallLayout['section']>
  readonly head: (name: string) => string
  readonly member: NonNullable<Notation['member']>
  readonly tail: string
  /** Matches the name and the members of a call, between `begin` and `end`. */
  readonly call: RegExp
  /** Has the groups `name`, `value` and, if the notation says whether a value is a string, `string`. */
  readonly parameter: RegExp
  readonly end: string
  /** Texts that no string may contain. */
  readonly without: readonly string[]
}

function members(options: Options): ToolSyntax {
  const { begin, around = [], marks, section, head, member, tail, parameter, end, without } = options
  const layout: CallLayout = {
    trigger: around[0] ?? begin,
    ...(section === undefined ? {} : { section }),
    head: (name) => [head(name)],
    tail,
    notation: { without, member },
  }
  // Only the `end` after the last member, or after a call without members, ends the call.
  const isComplete = (text: string) => text.replaceAll(parameter, '').indexOf(member.begin.trimEnd()) === -1
  return {
    begin,
    around,
    marks: [...new Set([begin, end, ...around, ...marks])],
    readCall: (tools) =>
      new BlockCallReader({ end, closes: isComplete, translate: (text) => translate(text, options, tools) }),
    constraint: (tools, single) => callConstraint(layout, tools, single),
  }
}

function translate(text: string, { call, parameter }: Options, tools: readonly Tool[]): BlockCall[] | null {
  const found = call.exec(text)?.groups
  if (found === undefined) return null
  const { name, body = '' } = found as { name: string; body?: string }
  if (body.replaceAll(parameter, '').trim() !== '') return null
  const tool = tools.find((other) => other.name === name)
  const typesOf = memberTypes(tool && argumentsSchema(tool))
  const given = [...body.matchAll(parameter)].map(({ groups }) => {
    const { name: key, value, string } = groups as { name: string; value: string; string?: 'true' | 'false' }
    return [key, argumentOf(value, typesOf(key), string)] as const
  })
  // The last of duplicate parameters counts, as in JSON.
  return [{ name, arguments: objectText([...new Map(given)]) }]
}

function argumentOf(text: string, types: ValueTypes, isString?: 'true' | 'false'): string {
  if (isString === 'true' && (types?.includes('string') ?? true)) return JSON.stringify(text)
  if (isString === 'false' && parseJsonOr(text, undefined) !== undefined) return text.trim()
  return jsonOf(text, types)
}

/** The value of a parameter is text if it may be a string, and JSON otherwise. */
function jsonOf(text: string, types: ValueTypes): string {
  const value = parseJsonOr(text, undefined)
  const isJson = value !== undefined && typeof value !== 'string'
  const mayBeString = types?.includes('string') ?? !isJson
  if (isJson && (!mayBeString || (value === null && types?.includes('null')))) return text.trim()
  return JSON.stringify(text)
}

/** `<tool_call>\n<function=f>\n<parameter=x>\n…\n</parameter>\n</function>\n</tool_call>`: Qwen3-Coder, Qwen3.5 and later. */
export const qwenCoder = members({
  begin: '<tool_call>',
  marks: ['<tool_response>', '</tool_response>'],
  head: (name) => `<tool_call>\n<function=${name}>\n`,
  member: { begin: '<parameter=', between: '>\n', end: '\n</parameter>\n' },
  tail: '</function>\n</tool_call>',
  call: /^\s*<function=(?<name>[^>\n]+)>(?<body>.*)<\/function>\s*$/s,
  parameter: /<parameter=(?<name>[^>\n]+)>\n?(?<value>.*?)\n?<\/parameter>/gs,
  end: '</tool_call>',
  without: ['</parameter>', '</function>'],
})

/** `<seed:tool_call>\n<function=f>\n<parameter=x>…</parameter>\n</function>\n</seed:tool_call>`: Seed-OSS. */
export const seedOss = members({
  begin: '<seed:tool_call>',
  marks: [],
  head: (name) => `<seed:tool_call>\n<function=${name}>\n`,
  member: { begin: '<parameter=', between: '>', end: '</parameter>\n' },
  tail: '</function>\n</seed:tool_call>',
  call: /^\s*<function=(?<name>[^>\n]+)>(?<body>.*)<\/function>\s*$/s,
  parameter: /<parameter=(?<name>[^>\n]+)>(?<value>.*?)<\/parameter>/gs,
  end: '</seed:tool_call>',
  without: ['</parameter>', '</function>'],
})

interface KeyOptions {
  /** The suffix of every tag's name, before its `>`. */
  readonly suffix?: string
  readonly line: '' | '\n'
  readonly around?: readonly string[]
  /** The text between the function's name and its arguments. */
  readonly separator?: string
}

/** `<arg_key>x</arg_key><arg_value>…</arg_value>` for each argument. */
function keyed({ suffix = '', line, around = [], separator = '' }: KeyOptions): ToolSyntax {
  const tag = (name: string) => `<${name}${suffix}>`
  const [outerBegin, outerEnd] = around
  const pair = ['arg_key', 'arg_value'].map((name, index) => {
    const [group, any] = index === 0 ? ['name', '[^\\n]*?'] : ['value', '.*?']
    return `${tag(name)}(?<${group}>${any})${tag(`/${name}`)}`
  })
  return members({
    begin: tag('tool_call'),
    around,
    marks: [...(separator === '' ? [] : [separator]), '<tool_response>', '</tool_response>'],
    ...(outerBegin === undefined
      ? {}
      : { section: { begin: outerBegin + line, between: line, end: `${line}${outerEnd}` } }),
    head: (name) => `${tag('tool_call')}${name}${separator}${line}`,
    member: {
      begin: tag('arg_key'),
      between: `${tag('/arg_key')}${line}${tag('arg_value')}`,
      end: tag('/arg_value') + line,
    },
    tail: tag('/tool_call'),
    call: new RegExp(`^\\s*(?<name>[^\\s<]+)\\s*(?:${separator})?(?<body>.*)$`, 's'),
    parameter: new RegExp(pair.join('\\s*'), 'gs'),
    end: tag('/tool_call'),
    without: [tag('/arg_value')],
  })
}

/** `<tool_call>f\n<arg_key>x</arg_key>\n<arg_value>…</arg_value>\n</tool_call>`: GLM-4.5 and 4.6. */
export const glm45 = keyed({ line: '\n' })
/** `glm45` without line breaks: GLM-4.7, Laguna. */
export const glm47 = keyed({ line: '' })
/** Hunyuan 3. */
export const hy3 = keyed({
  suffix: ':opensource',
  line: '\n',
  around: ['<tool_calls:opensource>', '</tool_calls:opensource>'],
  separator: '<tool_sep:opensource>',
})

interface InvokeOptions {
  /** The prefix of every tag's name. */
  readonly prefix?: string
  readonly tags?: readonly [call: string, parameter: string]
  readonly around?: readonly [begin: string, end: string]
  readonly line: '' | '\n'
  /** Whether each parameter says whether it is a string. */
  readonly saysString?: true
  /** Whether models may write values as XML's character data. */
  readonly cdata?: true
}

/** `<invoke name="f"><parameter name="x">…</parameter></invoke>`. */
function invoked(options: InvokeOptions): ToolSyntax {
  const { prefix = '', tags = ['invoke', 'parameter'], around, line, saysString, cdata } = options
  const [call, parameter] = tags
  const between = saysString ? '" string="true">' : '">'
  const named = (tag: string) => `<${prefix}${tag} name=`
  const name = `(?:"(?<name>[^\\n]*?)"|'(?<name>[^'\\n]*)'|(?<name>[^\\s"'>]+))`
  const data = cdata ? '<!\\[CDATA\\[(?<value>.*?)\\]\\]>|' : ''
  const value = `(?:${data}(?<value>.*?))</${prefix}${parameter}>`
  const kind = saysString ? '(?:\\s+string="(?<string>true|false)")?' : ''
  return members({
    begin: named(call),
    ...(around === undefined
      ? {}
      : { around, section: { begin: `${around[0]}\n`, between: '\n', end: `\n${around[1]}` } }),
    marks: [],
    head: (called) => `${named(call)}"${called}">${line}`,
    member: {
      begin: `${named(parameter)}"`,
      between,
      ...(saysString ? { betweenJson: '" string="false">' } : {}),
      end: `</${prefix}${parameter}>${line}`,
    },
    tail: `</${prefix}${call}>`,
    call: new RegExp(`^\\s*${name}\\s*>(?<body>.*)$`, 's'),
    parameter: new RegExp(`${named(parameter)}${name}${kind}\\s*>${value}`, 'gs'),
    end: `</${prefix}${call}>`,
    without: [`</${prefix}${parameter}>`, ...(cdata ? ['<![CDATA['] : [])],
  })
}

/** `<minimax:tool_call>\n<invoke name="f">\n<parameter name="x">…</parameter>\n</invoke>\n</minimax:tool_call>`: MiniMax M2. */
export const miniMaxM2 = invoked({ around: ['<minimax:tool_call>', '</minimax:tool_call>'], line: '\n' })

/** `<function name="f"><param name="x">…</param></function>`: MiniCPM5. */
export const miniCpm5 = invoked({ tags: ['function', 'param'], line: '', cdata: true })

/** `<｜DSML｜invoke name="f">\n<｜DSML｜parameter name="x" string="true">…</｜DSML｜parameter>\n</｜DSML｜invoke>`. */
function dsml(section: string): ToolSyntax {
  const prefix = '｜DSML｜'
  return invoked({ prefix, around: [`<${prefix}${section}>`, `</${prefix}${section}>`], line: '\n', saysString: true })
}
export const deepSeekV32 = dsml('function_calls')
export const deepSeekV4 = dsml('tool_calls')
