import { type CallLayout, callConstraint } from './call-layout.ts'
import { type Header, JsonCallReader, JsonListReader } from './json-call.ts'
import { type CallReader, type CallStep, OPEN, type ToolSyntax } from './syntax.ts'

const BEGIN = '[TOOL_CALLS]'
const ID = '[CALL_ID]'
const ARGUMENTS = '[ARGS]'

const LAYOUT: CallLayout = { trigger: BEGIN, head: (name) => [`${BEGIN}${name}${ARGUMENTS}`], tail: '' }

/**
 * `[TOOL_CALLS]f[ARGS]{…}`: Mistral since its tokeniser 11. Older models write a list, `[TOOL_CALLS] [{"name": "f",
 * "arguments": {…}}]`, which is read too.
 */
export const mistral: ToolSyntax = {
  begin: BEGIN,
  marks: [BEGIN, ID, ARGUMENTS, '[TOOL_RESULTS]', '[/TOOL_RESULTS]', '[AVAILABLE_TOOLS]', '[/AVAILABLE_TOOLS]'],
  readCall: () => new MistralCallReader(),
  constraint: (tools, single) => callConstraint(LAYOUT, tools, single),
}

class MistralCallReader implements CallReader {
  #text = ''
  #reader: CallReader | null = null

  push(text: string): CallStep {
    if (this.#reader) return this.#reader.push(text)
    this.#text += text
    const start = this.#text.trimStart()
    if (start === '') return OPEN
    this.#reader = start[0] === '[' ? new JsonListReader('') : new JsonCallReader({ header, end: '' })
    return this.#reader.push(start)
  }
}

/** `f[ARGS]{`, or `f[CALL_ID]x[ARGS]{`. */
function header(text: string): Header | 'more' | 'none' {
  const at = text.indexOf('{')
  if (at === -1) return 'more'
  const name = text.slice(0, at).split(ARGUMENTS, 1)[0]!.split(ID, 1)[0]!.trim()
  return name === '' ? 'none' : { name, argumentsAt: at }
}
