import { argumentsSchema } from '../request/tool.ts'
import { callsIn, type Header, JsonCallReader, JsonScan, parseJson } from './json-call.ts'
import { type CallReader, type CallStep, OPEN, REFUSED, type ToolSyntax } from './syntax.ts'

const BEGIN = '[TOOL_CALLS]'
const ID = '[CALL_ID]'
const ARGUMENTS = '[ARGS]'

/**
 * `[TOOL_CALLS]f[ARGS]{…}`: Mistral since its tokeniser 11. Older models write a list, `[TOOL_CALLS] [{"name": "f",
 * "arguments": {…}}]`, which is read too.
 */
export const mistral: ToolSyntax = {
  begin: BEGIN,
  marks: [BEGIN, ID, ARGUMENTS, '[TOOL_RESULTS]', '[/TOOL_RESULTS]', '[AVAILABLE_TOOLS]', '[/AVAILABLE_TOOLS]'],
  readCall: () => new MistralCallReader(),
  constraint: (tools, single) => ({
    type: 'triggered_tags',
    triggers: [BEGIN],
    tags: tools.map((tool) => ({
      begin: `${BEGIN}${tool.name}${ARGUMENTS}`,
      content: { type: 'json_schema', schema: argumentsSchema(tool), lenient: true },
      end: '',
    })),
    stopAfterFirst: single,
  }),
}

class MistralCallReader implements CallReader {
  #text = ''
  #reader: CallReader | null = null

  push(text: string): CallStep {
    if (this.#reader) return this.#reader.push(text)
    this.#text += text
    const start = this.#text.trimStart()
    if (start === '') return OPEN
    this.#reader = start[0] === '[' ? new ListReader() : new JsonCallReader({ header, end: '' })
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

/** A list of calls, which is read when it is complete. */
class ListReader implements CallReader {
  readonly #scan = new JsonScan()
  #text = ''

  push(text: string): CallStep {
    const length = this.#scan.push(text)
    this.#text += length === null ? text : text.slice(0, length)
    if (length === null) return OPEN
    const events = callsIn(parseJson(this.#text))
    return events === null ? REFUSED : { events, state: { ended: text.slice(length) } }
  }
}
