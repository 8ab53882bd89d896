import { afterAll, beforeAll, expect, test } from 'vitest'
import { errorOf, startTestServer, type TestServer } from './support/server.ts'

let server: TestServer
beforeAll(async () => {
  server = await startTestServer()
})
afterAll(() => server?.close())

const chat = (fields: object) =>
  server.post('/v1/chat/completions', {
    model: 'service-mk1.5',
    messages: [{ role: 'user', content: 'Hi' }],
    ...fields,
  })

/** The JSON text of an object with this many levels. JSON.stringify would overflow the stack. */
const nested = (levels: number) => `${'{"not":'.repeat(levels)}true${'}'.repeat(levels)}`
const within = (body: object, levels: number) => JSON.stringify(body).replace('"DEEP"', () => nested(levels))

const withTool = { tools: [0, 1].map((i) => ({ type: 'function', function: { name: `f${i}`, parameters: {} } })) }
withTool.tools[1]!.function.parameters = 'DEEP'
const withSchema = { response_format: { type: 'json_schema', json_schema: { name: 's', schema: 'DEEP' } } }

test.each([
  ['tools[1].function.parameters', withTool],
  ['response_format.json_schema.schema', withSchema],
])('%s nested too deeply is rejected by name', async (param, fields) => {
  for (const levels of [101, 3400, 20_000]) {
    const body = within({ model: 'service-mk1.5', messages: [{ role: 'user', content: 'Hi' }], ...fields }, levels)
    const response = await server.post('/v1/chat/completions', body)
    expect(response.status).toBe(400)
    expect(await errorOf(response)).toMatchObject({ param, message: expect.stringMatching(/deeper than 100 levels/) })
  }
})

test('arguments of earlier calls nested too deeply are rejected by name', async () => {
  const asked = (levels: number) => ({
    messages: [
      { role: 'user', content: 'Hi' },
      {
        role: 'assistant',
        tool_calls: [{ id: 'a', type: 'function', function: { name: 'f', arguments: nested(levels) } }],
      },
      { role: 'tool', tool_call_id: 'a', content: 'done' },
    ],
  })
  for (const levels of [101, 3400, 100_000]) {
    const response = await chat(asked(levels))
    expect(response.status).toBe(400)
    expect(await errorOf(response)).toMatchObject({ param: 'messages[1].tool_calls[0].function.arguments' })
  }
  expect((await chat(asked(100))).status).toBe(200)
})

test('a body has at most 108 levels', async () => {
  for (const [levels, status] of [
    [108, 200],
    [109, 400],
  ] as const) {
    const x = JSON.parse('['.repeat(levels - 1) + ']'.repeat(levels - 1)) as unknown
    expect((await chat({ x })).status).toBe(status)
  }
})
