import { argumentsSchema } from '../request/tool.ts'
import { callsIn, JsonCallReader, jsonHeader, parseJson } from './json-call.ts'
import type { ToolSyntax } from './syntax.ts'

const BEGIN = '<tool_call>'
const END = '</tool_call>'

/** `<tool_call>\n{"name": "f", "arguments": {…}}\n</tool_call>`: Hermes, Qwen2.5, Qwen3, Qwen3-VL, and the shipped model. */
export const hermes: ToolSyntax = {
  begin: BEGIN,
  marks: [BEGIN, END, '<tool_response>', '</tool_response>'],
  readCall: () =>
    new JsonCallReader({
      header: (text) => jsonHeader(text, { opened: false, key: 'arguments' }),
      end: END,
      whole: (text) => callsIn(parseJson(text)),
    }),
  constraint: (tools, single) => ({
    type: 'triggered_tags',
    triggers: [BEGIN],
    tags: tools.map((tool) => ({
      begin: `${BEGIN}\n{"name": ${JSON.stringify(tool.name)}, "arguments": `,
      content: { type: 'json_schema', schema: argumentsSchema(tool), lenient: true },
      end: `}\n${END}`,
    })),
    stopAfterFirst: single,
  }),
}
