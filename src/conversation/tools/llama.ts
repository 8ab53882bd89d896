import { argumentsSchema } from '../request/tool.ts'
import { JsonCallReader, jsonHeader } from './json-call.ts'
import type { ToolSyntax } from './syntax.ts'

const BEGIN = '{"name": '

/** `{"name": "f", "parameters": {…}}`: Llama 3.1 and later, which call one function at a time. */
export const llama: ToolSyntax = {
  begin: BEGIN,
  marks: [],
  readCall: () =>
    new JsonCallReader({ header: (text) => jsonHeader(text, { opened: true, key: 'parameters' }), end: '}' }),
  constraint: (tools) => ({
    type: 'triggered_tags',
    triggers: [BEGIN],
    tags: tools.map((tool) => ({
      begin: `${BEGIN}${JSON.stringify(tool.name)}, "parameters": `,
      content: { type: 'json_schema', schema: argumentsSchema(tool), lenient: true },
      end: '}',
    })),
    stopAfterFirst: true,
  }),
}
