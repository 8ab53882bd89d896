import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { startTestServer, type TestServer } from './support/server.ts'

const HEADER = 'x-lookout-ignored-keywords'
const model = 'service-mk1.5'
const messages = [{ role: 'user', content: 'Hi' }]
const schema = {
  type: 'object',
  title: 'Only a comment',
  properties: {
    kind: { type: 'string', discriminator: { propertyName: 'kind' }, 'x-order': 1 },
    version: { anyOf: [{ type: 'string', format: 'semver' }, { type: 'null' }] },
  },
}
const NAMED = 'discriminator, x-order, format: semver'

let server: TestServer
beforeAll(async () => {
  const environment = { LOOKOUT_OLLAMA: 'on', LOOKOUT_COMPATIBILITY: 'openai' }
  server = await startTestServer({ environment })
})
afterAll(() => server?.close())
beforeEach(() => {
  server.engine.script = { texts: ['{"kind": "a"}'] }
})

const format = (schema: unknown) => ({ type: 'json_schema', json_schema: { name: 'answer', schema } })
const chat = (fields: object) => server.post('/v1/chat/completions', { model, messages, ...fields })
const tool = (parameters: unknown) => ({ type: 'function', function: { name: 'f', parameters } })

const SURFACES: [name: string, path: string, body: (schema: unknown) => object][] = [
  ['a chat completion', '/v1/chat/completions', (schema) => ({ messages, response_format: format(schema) })],
  ['tools of a chat', '/v1/chat/completions', (schema) => ({ messages, tools: [tool(schema)] })],
  ['several choices', '/v1/chat/completions', (schema) => ({ messages, n: 2, response_format: format(schema) })],
  [
    'a response',
    '/v1/responses',
    (schema) => ({ input: 'Hi', text: { format: { type: 'json_schema', name: 'answer', schema } } }),
  ],
  [
    'tools of a response',
    '/v1/responses',
    (parameters) => ({ input: 'Hi', tools: [{ type: 'function', name: 'f', parameters }] }),
  ],
  [
    'a message',
    '/v1/messages',
    (schema) => ({ messages, max_tokens: 50, output_config: { format: { type: 'json_schema', schema } } }),
  ],
  [
    'tools of a message',
    '/v1/messages',
    (input_schema) => ({ messages, max_tokens: 50, tools: [{ name: 'f', input_schema }] }),
  ],
  ['an Ollama chat', '/api/chat', (schema) => ({ messages, format: schema })],
  ['tools of an Ollama chat', '/api/chat', (schema) => ({ messages, tools: [tool(schema)] })],
]

test.each(SURFACES)('%s names the keywords that have no effect, whole and streamed', async (_, path, body) => {
  for (const stream of [false, true]) {
    const response = await server.post(path, { model, stream, ...body(schema) })
    const text = await response.text()
    expect([response.status, response.headers.get(HEADER)], text).toEqual([200, NAMED])
    const plain = await server.post(path, { model, stream, ...body({ type: 'object', description: 'A comment' }) })
    await plain.text()
    expect([plain.status, plain.headers.get(HEADER)]).toEqual([200, null])
  }
  expect(server.logs.some((line) => line.includes(NAMED))).toBe(true)
})

test('each name comes once, of all tools', async () => {
  const tools = [tool(schema), { ...tool(schema), function: { name: 'g', parameters: { ...schema, mine: 1 } } }]
  const response = await chat({ tools })
  expect(response.headers.get(HEADER)).toBe(`${NAMED}, mine`)
})

test.each([
  ['a comma', 'a,b', 'a\\u002cb'],
  ['line breaks', 'a\r\nset-cookie: b', 'a\\u000d\\u000aset-cookie: b'],
  ['other scripts', 'größe', 'gr\\u00f6\\u00dfe'],
  ['half a character', '\ud83d', '\\ud83d'],
  ['a backslash', 'a\\u002c', 'a\\u005cu002c'],
  ['blanks', ' a ', '\\u0020a\\u0020'],
  ['nothing', '', '\\u0000'],
  ['the name of a prototype', '__proto__', '__proto__'],
])('a name with %s stays one name', async (_, name, written) => {
  const text = JSON.stringify({ model, messages, response_format: format({ type: 'object', zzz: 1 }) })
  const response = await server.post('/v1/chat/completions', text.replace('"zzz"', JSON.stringify(name)))
  expect([response.status, response.headers.get(HEADER)]).toEqual([200, written])
})

test('the header stays short for names of any length and number', async () => {
  const many = Object.fromEntries(Array.from({ length: 1_000 }, (_, index) => [`keyword-${index}`, index]))
  for (const parameters of [many, { ['x'.repeat(10_000)]: 1 }, { 'x-a': 1, ['ß'.repeat(300)]: 1 }]) {
    const response = await chat({ tools: [tool(parameters)] })
    const header = response.headers.get(HEADER)!
    expect([response.status, header.slice(-3)]).toEqual([200, '...'])
    expect(header.length).toBeLessThan(1_010)
  }
})
