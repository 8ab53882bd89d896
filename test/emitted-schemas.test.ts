import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { byteAutomaton, generator, randomText } from './support/byte-automaton.ts'
import { inTurns } from './support/in-turns.ts'
import { judgeOf } from './support/schema-drafts.ts'
import type { TestServer } from './support/server.ts'
import { startShippedServer } from './support/shipped-model.ts'

interface Emitted {
  readonly versions: Readonly<Record<string, string>>
  readonly schemas: readonly { readonly name: string; readonly schema: unknown }[]
}

/** What libraries send for typical models. The folder holds the programs that wrote these files. */
const emitted = (language: string) =>
  JSON.parse(readFileSync(new URL(`fixtures/emitted-schemas/${language}.json`, import.meta.url), 'utf8')) as Emitted
const SCHEMAS = [...emitted('python').schemas, ...emitted('node').schemas].map(
  ({ name, schema }) => [name, schema] as const,
)

/** What cannot be enforced, and why a schema is refused that says so. Tools do without it. */
const REFUSED: readonly RegExp[] = [
  // Sets of any strings: a grammar does not compare items with each other.
  /'uniqueItems' is only supported for items that the schema lists/,
]
/** On a busy machine. */
const LATE = /it takes longer than 3 s to compile/
const WALKS = 5

describe('a schema that a library sends', () => {
  let ended = 0

  test.each(SCHEMAS)('%s', (_, schema) => {
    let automaton: ReturnType<typeof byteAutomaton>
    try {
      automaton = byteAutomaton({ type: 'json_schema', schema })
    } catch (error) {
      const { message } = error as Error
      return expect(REFUSED.filter((reason) => reason.test(message)).length, message).toBe(1)
    }
    const isValid = judgeOf(schema)
    const texts = Array.from({ length: WALKS }, (_, seed) => randomText(automaton, generator(seed)))
    const finished = texts.filter((text) => text !== null)
    for (const text of finished) expect(isValid(JSON.parse(text)), text).toBe(true)
    if (finished.length > 0) ended++
  })

  test('random texts of most of them end', () => expect(ended).toBeGreaterThan(0.8 * SCHEMAS.length))
})

const messages = [{ role: 'user', content: 'Hi' }]
const tool = (parameters: unknown) => ({ type: 'function', function: { name: 'f', parameters } })

const SURFACES: readonly [name: string, path: string, body: (schema: unknown) => object][] = [
  [
    'response_format of a chat',
    '/v1/chat/completions',
    (schema) => ({
      messages,
      max_tokens: 1,
      response_format: { type: 'json_schema', json_schema: { name: 'a', schema } },
    }),
  ],
  [
    'a forced call in a chat',
    '/v1/chat/completions',
    (schema) => ({ messages, max_tokens: 1, tools: [tool(schema)], tool_choice: 'required' }),
  ],
  [
    'text.format of a response',
    '/v1/responses',
    (schema) => ({ input: 'Hi', max_output_tokens: 16, text: { format: { type: 'json_schema', name: 'a', schema } } }),
  ],
  [
    'tools of a response',
    '/v1/responses',
    (parameters) => ({
      ...{ input: 'Hi', max_output_tokens: 16, tool_choice: 'required' },
      tools: [{ type: 'function', name: 'f', parameters, strict: true }],
    }),
  ],
  [
    'the format of a message',
    '/v1/messages',
    (schema) => ({ messages, max_tokens: 1, output_config: { format: { type: 'json_schema', schema } } }),
  ],
  [
    'tools of a message',
    '/v1/messages',
    (schema) => ({
      ...{ messages, max_tokens: 1, tool_choice: { type: 'any' } },
      tools: [{ name: 'f', input_schema: { ...(schema as object), type: 'object' } }],
    }),
  ],
  [
    'the format of an Ollama chat',
    '/api/chat',
    (schema) => ({ messages, options: { num_predict: 1 }, format: schema }),
  ],
  [
    'tools of an Ollama chat',
    '/api/chat',
    (schema) => ({ messages, options: { num_predict: 1 }, tools: [tool(schema)] }),
  ],
]

describe('is taken by', () => {
  let server: TestServer
  beforeAll(async () => {
    server = await startShippedServer({ environment: { LOOKOUT_OLLAMA: 'on', LOOKOUT_COMPATIBILITY: 'openai' } })
  })
  afterAll(() => server?.close())

  test.each(SURFACES)('%s', async (surface, path, body) => {
    const turn = SURFACES.findIndex(([other]) => other === surface)
    // Behind the first, all others go the same way: the four kinds of tools share the schemas, and so do the formats.
    const pair = Math.floor(turn / 2)
    const chosen = turn === 0 ? SCHEMAS : SCHEMAS.filter((_, at) => at % 4 === pair)
    const isTool = surface.includes('tools') || surface.includes('call')
    const unexpected: string[] = []
    await inTurns(chosen, 8, async ([name, schema]) => {
      const response = await server.post(path, { model: 'service-mk1.5', stream: false, ...body(schema) })
      const text = await response.text()
      const isRefused =
        !isTool && response.status === 400 && [...REFUSED, LATE].some((reason) => reason.test(unescaped(text)))
      if (response.status !== 200 && !isRefused) unexpected.push(`${name}: ${response.status} ${text}`)
    })
    expect(unexpected).toEqual([])
  })
})

function unescaped(json: string): string {
  return json.replaceAll('\\"', '"')
}
