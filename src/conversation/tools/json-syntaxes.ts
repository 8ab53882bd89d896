import { parseJsonOr } from '../../lib/json/parse-json.ts'
import { type CallLayout, COUNTER, callConstraint } from './call-layout.ts'
import { callsIn, type HeaderReader, JsonCallReader, JsonListReader, jsonHeader } from './json-call.ts'
import type { CallReader, ToolSyntax, WrittenCall } from './syntax.ts'

interface Parts {
  readonly begin: string
  readonly around?: readonly string[]
  /** Marks besides `begin` and `around`. */
  readonly marks: readonly string[]
  readonly layout: CallLayout
  readonly createReader: () => CallReader
}

function syntax({ begin, around = [], marks, layout, createReader }: Parts): ToolSyntax {
  return {
    begin,
    around,
    marks: [...new Set([begin, ...around, ...marks])],
    readCall: createReader,
    constraint: (tools, single) => callConstraint(layout, tools, single),
  }
}

/** Reads the text before the `{` of the arguments. */
function headed(pattern: RegExp, end: string): HeaderReader {
  return (text) => {
    const at = text.indexOf('{')
    const head = at === -1 ? text : text.slice(0, at)
    if (end !== '' && head.includes(end)) return 'none'
    if (at === -1) return 'more'
    const name = pattern.exec(head)?.[1]
    return name === undefined ? 'none' : { name, argumentsAt: at }
  }
}

/** A syntax whose calls each have a begin and an end mark, with a name and JSON between them. */
function framed(options: Omit<Parts, 'createReader'> & { readonly header: RegExp; readonly end: string }): ToolSyntax {
  const header = headed(options.header, options.end)
  return syntax({ ...options, createReader: () => new JsonCallReader({ header, end: options.end }) })
}

interface ListOptions {
  readonly begin: string
  readonly end: string
  readonly marks?: readonly string[]
  /** The text around and between the calls, within the marks. */
  readonly list?: readonly [open: string, between: string, close: string]
  readonly head?: CallLayout['head']
  readonly callsOf?: typeof callsIn
}

/** A syntax that writes a list of calls as JSON. */
function listed({ begin, end, marks = [], list = ['[', ', ', ']'], head = named, callsOf }: ListOptions): ToolSyntax {
  const [open, between, close] = list
  const own = syntax({
    begin,
    marks: end === '' ? marks : [end, ...marks],
    layout: { trigger: begin, section: { begin: begin + open, between, end: close + end }, head, tail: '}' },
    createReader: () => new JsonListReader(end, callsOf),
  })
  const written = ({ name, arguments: given }: WrittenCall) => `${named(name)[0]}${given}}`.toWellFormed()
  return {
    ...own,
    write: (calls) => [
      { type: 'text', text: begin, trusted: true },
      { type: 'text', text: open + calls.map(written).join(between) + close, trusted: false },
      ...(end === '' ? [] : [{ type: 'text', text: end, trusted: true } as const]),
    ],
  }
}

const named = (name: string): [string] => [`{"name": ${JSON.stringify(name)}, "arguments": `]

/** `<tool_call>\n{"name": "f", "arguments": {…}}\n</tool_call>`: Hermes, Qwen2.5, Qwen3, Qwen3-VL, and the shipped model. */
export const hermes = syntax({
  begin: '<tool_call>',
  marks: ['</tool_call>', '<tool_response>', '</tool_response>'],
  layout: { trigger: '<tool_call>', head: (name) => [`<tool_call>\n${named(name)[0]}`], tail: '}\n</tool_call>' },
  createReader: () =>
    new JsonCallReader({
      header: (text) => jsonHeader(text, { opened: false, key: 'arguments' }),
      end: '</tool_call>',
      whole: (text) => callsIn(parseJsonOr(text, undefined)),
    }),
})

/** `{"name": "f", "parameters": {…}}`: Llama 3.1 and later, which call one function at a time. */
const LLAMA: CallLayout = {
  trigger: '{"name": ',
  head: (name) => [`{"name": ${JSON.stringify(name)}, "parameters": `],
  tail: '}',
}
export const llama: ToolSyntax = {
  begin: LLAMA.trigger,
  marks: [],
  readCall: () =>
    new JsonCallReader({ header: (text) => jsonHeader(text, { opened: true, key: 'parameters' }), end: '}' }),
  constraint: (tools) => callConstraint(LLAMA, tools, true),
}

/** `<|function_call|>{"name": "f", "arguments": {…}}`: GigaChat 3.1. */
export const gigachat = syntax({
  begin: '<|function_call|>',
  marks: [],
  layout: { trigger: '<|function_call|>', head: (name) => [`<|function_call|>${named(name)[0]}`], tail: '}' },
  createReader: () =>
    new JsonCallReader({ header: (text) => jsonHeader(text, { opened: false, key: 'arguments' }), end: '}' }),
})

/** `<function=f>{…}</function>`: Functionary 3.1, and Llama 3.1 where its template asks for it. */
export const functionary = framed({
  begin: '<function=',
  marks: ['</function>'],
  layout: { trigger: '<function=', head: (name) => [`<function=${name}>`], tail: '</function>' },
  header: /^([^>]+)>\s*$/,
  end: '</function>',
})

/** `<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{…}<|tool_call_end|>…`: Kimi K2. */
export const kimi: ToolSyntax = {
  callId: (index, name) => `functions.${name}:${index}`,
  ...framed({
    begin: '<|tool_call_begin|>',
    around: ['<|tool_calls_section_begin|>', '<|tool_calls_section_end|>'],
    marks: ['<|tool_call_argument_begin|>', '<|tool_call_end|>'],
    layout: {
      trigger: '<|tool_calls_section_begin|>',
      section: { begin: '<|tool_calls_section_begin|>', between: '', end: '<|tool_calls_section_end|>' },
      head: (name) => [`<|tool_call_begin|>functions.${name}:`, COUNTER, '<|tool_call_argument_begin|>'],
      tail: '<|tool_call_end|>',
    },
    header: /^\s*(?:functions\.)?(\S(?:.*?\S)??)(?::\d+)?\s*<\|tool_call_argument_begin\|>\s*$/,
    end: '<|tool_call_end|>',
  }),
}

/** The versions of DeepSeek differ in the text around a name. */
function deepSeek(before: string, after: string, end: string): ToolSyntax {
  return framed({
    begin: '<｜tool▁call▁begin｜>',
    around: ['<｜tool▁calls▁begin｜>', '<｜tool▁calls▁end｜>'],
    marks: ['<｜tool▁sep｜>', '<｜tool▁call▁end｜>', '<｜tool▁output▁begin｜>', '<｜tool▁output▁end｜>'],
    layout: {
      trigger: '<｜tool▁calls▁begin｜>',
      section: { begin: '<｜tool▁calls▁begin｜>', between: '', end: '<｜tool▁calls▁end｜>' },
      head: (name) => [`<｜tool▁call▁begin｜>${before}${name}${after}`],
      tail: `${end}<｜tool▁call▁end｜>`,
    },
    header: /^\s*(?:function<｜tool▁sep｜>)?(\S(?:.*?\S)??)\s*(?:<｜tool▁sep｜>|```(?:json)?)\s*$/,
    end: '<｜tool▁call▁end｜>',
  })
}
/** `<｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n…`, with the arguments as a block of code: DeepSeek R1 and V3. */
export const deepSeekV3 = deepSeek('function<｜tool▁sep｜>', '\n```json\n', '\n```')
/** `<｜tool▁call▁begin｜>f<｜tool▁sep｜>{…}<｜tool▁call▁end｜>`: DeepSeek V3.1. */
export const deepSeekV31 = deepSeek('', '<｜tool▁sep｜>', '')

/** `<TOOLCALL>[{"name": "f", "arguments": {…}}]</TOOLCALL>`: Nemotron Nano 2. */
export const nemotron = listed({ begin: '<TOOLCALL>', end: '</TOOLCALL>', marks: ['<TOOL_RESPONSE>'] })

/** `<|tool_call|>[{"name": "f", "arguments": {…}}]`: Granite 3. */
export const granite = listed({ begin: '<|tool_call|>', end: '' })

/** ` functools[{"name": "f", "arguments": {…}}]`: Firefunction 2, Phi-4-mini. */
export const functools = listed({ begin: 'functools', end: '' })

/** `<tool_calls>[{"name": "f", "arguments": {…}}]</tool_calls>`: Hunyuan, Jamba. */
export const hunyuan = listed({ begin: '<tool_calls>', end: '</tool_calls>' })

/** `<tool_calls>\n{"name": "f", "arguments": {…}}\n</tool_calls>`, with a line for each call: MiniMax M1. */
export const miniMaxM1 = listed({ begin: '<tool_calls>', end: '</tool_calls>', list: ['\n', '\n', '\n'] })

/** `<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "f", "parameters": {…}}]<|END_ACTION|>`: Command R7B, Command A. */
export const cohere = listed({
  begin: '<|START_ACTION|>',
  end: '<|END_ACTION|>',
  list: ['[\n    ', ',\n    ', '\n]'],
  head: (name) => ['{"tool_call_id": "', COUNTER, `", "tool_name": ${JSON.stringify(name)}, "parameters": `],
})

/** `<|tools_prefix|>[{"f": {…}}]<|tools_suffix|>`: Apertus. */
export const apertus = listed({
  begin: '<|tools_prefix|>',
  end: '<|tools_suffix|>',
  head: (name) => [`{${JSON.stringify(name)}: `],
  callsOf: (value) =>
    callsIn(
      [value].flat().flatMap((call) => Object.entries(call ?? {}).map(([name, given]) => ({ name, arguments: given }))),
    ),
})
