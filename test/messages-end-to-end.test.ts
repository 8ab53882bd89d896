import { readFile } from 'node:fs/promises'
import Anthropic from '@anthropic-ai/sdk'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { KEY, type TestServer } from './support/server.ts'
import { startShippedServer } from './support/shipped-model.ts'

/** Anthropic's client and the shipped model: what holds for any answers of the model. */
const model = 'service-mk1.5'
let server: TestServer
let client: Anthropic
let shapes: Anthropic.ImageBlockParam
beforeAll(async () => {
  const data = await readFile('docs/pictures/shapes.png', 'base64')
  shapes = { type: 'image', source: { type: 'base64', media_type: 'image/png', data } }
  server = await startShippedServer({ seed: 7 })
  client = new Anthropic({ baseURL: server.url, apiKey: KEY, maxRetries: 0 })
})
afterAll(() => server?.close())

const about = (text: string): Anthropic.MessageParam => ({ role: 'user', content: [shapes, { type: 'text', text }] })
const weather: Anthropic.Tool = {
  name: 'weather',
  input_schema: { type: 'object', properties: { city: { type: 'string', maxLength: 12 } }, required: ['city'] },
}
const clock: Anthropic.Tool = { name: 'clock', input_schema: { type: 'object', additionalProperties: false } }

test('a stream has the text and the usage of a whole message, and the next turn reads what it shares from a cache', async () => {
  const request = { model, max_tokens: 60, messages: [about('Describe the image.')] }
  const whole = await client.messages.create(request)
  const streamed = await client.messages.stream(request).finalMessage()
  const answer = whole.content[0] as Anthropic.TextBlock
  expect(answer.text).not.toBe('')
  expect(streamed.content).toEqual(whole.content)
  const total = ({ input_tokens, cache_read_input_tokens: cached }: Anthropic.Usage) => input_tokens + (cached ?? 0)
  expect(total(streamed.usage)).toBe(total(whole.usage))
  expect(streamed.usage.output_tokens).toBe(whole.usage.output_tokens)
  expect(streamed.usage.cache_read_input_tokens).toBeGreaterThan(190)
  const { input_tokens } = await client.messages.countTokens({ model, messages: request.messages })
  expect(input_tokens).toBe(total(whole.usage))
})

test('a stop sequence ends the same reply where it stands', async () => {
  const request = { model, max_tokens: 60, messages: [about('Describe the image.')] }
  const { content, usage } = await client.messages.create(request)
  const { text } = content[0] as Anthropic.TextBlock
  const stop = text.slice(Math.floor(text.length / 3), Math.floor(text.length / 3) + 4)
  const stopped = await client.messages.create({ ...request, stop_sequences: [stop] })
  expect(stopped).toMatchObject({ stop_reason: 'stop_sequence', stop_sequence: stop })
  const [block] = stopped.content
  expect(block?.type === 'text' ? block.text : '').toBe(text.slice(0, text.indexOf(stop)))
  expect(stopped.usage.output_tokens).toBeLessThanOrEqual(usage.output_tokens)
})

test.each([0, 1])('calls that are demanded are made, at temperature %i', async (temperature) => {
  for (const [tool_choice, names] of [
    [{ type: 'any', disable_parallel_tool_use: true }, /^(weather|clock)$/],
    [{ type: 'tool', name: 'weather' }, /^weather$/],
  ] as const) {
    const request = { model, max_tokens: 200, temperature, tools: [weather, clock], tool_choice }
    const message = await client.messages.create({
      ...request,
      messages: [{ role: 'user', content: 'Hello!' }],
    } as never)
    const calls = (message as Anthropic.Message).content.filter((block) => block.type === 'tool_use')
    expect(calls).toHaveLength(1)
    expect(calls[0]!.name).toMatch(names)
    expect((message as Anthropic.Message).stop_reason).toBe('tool_use')
    if (calls[0]!.name === 'weather') expect(calls[0]!.input).toHaveProperty('city')
  }
})

test('a schema is kept, and one that cannot be is refused', async () => {
  const request = { model, max_tokens: 200, messages: [about('How many hearts are there?')] }
  const schema = {
    type: 'object',
    properties: { n: { type: 'integer' } },
    required: ['n'],
    additionalProperties: false,
  }
  const { content } = await client.messages.create({
    ...request,
    output_config: { format: { type: 'json_schema', schema } },
  })
  expect(JSON.parse((content[0] as Anthropic.TextBlock).text)).toEqual({ n: expect.any(Number) })
  const odd = { type: 'object', properties: { n: { type: 'string', pattern: '(a)\\1' } }, required: ['n'] }
  const refused = client.messages.create({
    ...request,
    output_config: { format: { type: 'json_schema', schema: odd } },
  })
  await expect(refused).rejects.toThrow(/^400 .*output_config\.format\.schema/)
})

test('thoughts are told, and taken back', async () => {
  const question = about('How many hearts are there?')
  const thinking = { type: 'enabled', budget_tokens: 12 } as const
  const request = { model, max_tokens: 100, thinking }
  const first = await client.messages.create({ ...request, messages: [question] })
  const [thought, answer] = first.content
  expect([thought?.type, answer?.type]).toEqual(['thinking', 'text'])
  const next: Anthropic.MessageParam[] = [question, { role: 'assistant', content: first.content }, about('And stars?')]
  expect((await client.messages.create({ ...request, messages: next })).content.at(-1)?.type).toBe('text')
})

test('a picture that a tool gives is looked at', async () => {
  const messages: Anthropic.MessageParam[] = [
    { role: 'user', content: 'What is in the picture?' },
    { role: 'assistant', content: [{ type: 'tool_use', id: 't1', name: 'clock', input: {} }] },
    { role: 'user', content: [{ type: 'tool_result', tool_use_id: 't1', content: [shapes] }] },
  ]
  const { usage } = await client.messages.create({ model, max_tokens: 20, tools: [clock], messages })
  expect(usage.input_tokens + (usage.cache_read_input_tokens ?? 0)).toBeGreaterThan(16 * 12)
})
