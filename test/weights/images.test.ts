import { readFile } from 'node:fs/promises'
import Anthropic from '@anthropic-ai/sdk'
import { Ollama } from 'ollama'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { parseMarkup } from '../../src/grounding/markup-parser.ts'
import { jsonOf, KEY, type TestServer } from '../support/server.ts'
import { startShippedServer } from '../support/shipped-model.ts'

/** What the shipped model answers about an image, where it points, and how it calls a tool. */
let server: TestServer
let shapes: string
beforeAll(async () => {
  const png = await readFile('docs/pictures/shapes.png')
  shapes = `data:image/png;base64,${png.toString('base64')}`
  server = await startShippedServer({ environment: { LOOKOUT_OLLAMA: 'on' } })
})
afterAll(() => server?.close())

interface Message {
  readonly content: string | null
  readonly tool_calls?: readonly { readonly function: { readonly name: string; readonly arguments: string } }[]
}

async function reply(content: unknown, more: object = {}): Promise<Message> {
  const response = await server.post('/v1/chat/completions', {
    model: 'service-mk1.5',
    max_completion_tokens: 300,
    messages: [{ role: 'user', content }],
    ...more,
  })
  const { choices } = await jsonOf<{ choices: { message: Message }[] }>(response)
  return choices[0]!.message
}

const about = (text: string) => [
  { type: 'image_url', image_url: { url: shapes } },
  { type: 'text', text },
]

test.each([
  ['What colour is the star?', /blue/i],
  ['What color is the heart?', /purple/i],
  ['Is there a red circle?', /yes/i],
  ['Is there a black cross?', /no/i],
  ['How many triangles are there?', /\b(1|one)\b/i],
])('%s', async (question, expected) => {
  expect((await reply(about(question))).content).toMatch(expected)
})

test('a question by Anthropic’s client', async () => {
  const client = new Anthropic({ baseURL: server.url, apiKey: KEY, maxRetries: 0 })
  const data = shapes.slice(shapes.indexOf(',') + 1)
  const image = { type: 'image', source: { type: 'base64', media_type: 'image/png', data } } as const
  const content: Anthropic.ContentBlockParam[] = [image, { type: 'text', text: 'What colour is the star?' }]
  const request = { model: 'service-mk1.5', max_tokens: 100, messages: [{ role: 'user' as const, content }] }
  expect(await client.messages.stream(request).finalText()).toMatch(/blue/i)
})

test('a question by Ollama’s client', async () => {
  const images = [await readFile('docs/pictures/shapes.png')]
  const messages = [{ role: 'user', content: 'What color is the heart?', images }]
  const { message } = await new Ollama({ host: server.url }).chat({ model: 'service-mk1.5', messages })
  expect(message.content).toMatch(/purple/i)
})

test('a box is where the circle is', async () => {
  const { content } = await reply(about('red circle'), { vision_config: { annotation_format: 'box' } })
  const boxes = parseMarkup(content!).flatMap((item) => (item.kind === 'point_box' ? [item.points] : []))
  expect(boxes).toHaveLength(1)
  // The circle covers (44,40) to (148,144) of 512 x 384.
  const truth = { left: 86, top: 104, right: 289, bottom: 375 }
  const [from, to] = boxes[0]!
  const width = Math.min(to!.x, truth.right) - Math.max(from!.x, truth.left)
  const height = Math.min(to!.y, truth.bottom) - Math.max(from!.y, truth.top)
  const overlap = Math.max(0, width) * Math.max(0, height)
  const area = (b: { left: number; top: number; right: number; bottom: number }) =>
    (b.right - b.left) * (b.bottom - b.top)
  const union = area(truth) + area({ left: from!.x, top: from!.y, right: to!.x, bottom: to!.y }) - overlap
  expect(overlap / union).toBeGreaterThan(0.5)
})

test.each([{ required: ['color'] }, {}])('a call has its arguments, whether required or not: %o', async (required) => {
  const parameters = { type: 'object', properties: { color: { type: 'string' } }, ...required }
  const { tool_calls: calls } = await reply('Set the lamp to blue.', {
    tools: [
      { type: 'function', function: { name: 'set_lamp', description: 'Set the colour of the lamp.', parameters } },
    ],
  })
  expect(calls).toHaveLength(1)
  expect(calls![0]!.function.name).toBe('set_lamp')
  expect(JSON.parse(calls![0]!.function.arguments)).toEqual({ color: 'blue' })
})
