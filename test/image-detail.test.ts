import sharp from 'sharp'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { PromptPart } from '../src/inference/contract/parts.ts'
import type { Work } from '../src/inference/contract/work.ts'
import type { ModelCard } from '../src/models/card.ts'
import { changedCard } from './support/changed-card.ts'
import { jsonOf, startTestServer, type TestServer } from './support/server.ts'

const MODEL = 'service-mk1.5'
const UNIT = 32
const limits = { pixelsPerToken: UNIT, minTokens: 16, maxTokens: 400 }
let server: TestServer
let card: Awaited<ReturnType<typeof changedCard>>

beforeAll(async () => {
  card = await changedCard((shipped: ModelCard) => ({ ...shipped, image: limits }))
  server = await startTestServer({ environment: { LOOKOUT_MODEL_CARD: card.path } })
})
afterAll(async () => {
  await server?.close()
  await card?.remove()
})

async function png(width: number, height: number): Promise<Buffer> {
  return sharp({ create: { width, height, channels: 3, background: 'red' } })
    .png()
    .toBuffer()
}

const dataUrl = async (width: number, height: number) =>
  `data:image/png;base64,${(await png(width, height)).toString('base64')}`

/** Columns and rows of tokens of each image that the last work was about. */
function grids(): [columns: number, rows: number][] {
  const { prefix, branches } = server.engine.works.at(-1) as Work
  const parts: PromptPart[] = [...prefix, ...branches.flatMap(({ suffix }) => suffix)]
  return parts.flatMap((part) => (part.type === 'image' ? [[part.image.width / UNIT, part.image.height / UNIT]] : []))
}

async function gridOf(url: string, detail?: unknown): Promise<[number, number]> {
  const content = [{ type: 'image_url', image_url: { url, detail } }]
  const reply = await server.post('/v1/chat/completions', { model: MODEL, messages: [{ role: 'user', content }] })
  expect(reply.status).toBe(200)
  return grids()[0]!
}

test.each([
  [undefined, 20, 20],
  ['auto', 20, 20],
  ['high', 20, 20],
  ['original', 20, 20],
  ['low', 10, 10],
])('a large square with detail %s', async (detail, columns, rows) => {
  expect(await gridOf(await dataUrl(1000, 1000), detail)).toEqual([columns, rows])
})

test('the aspect ratio is kept, and no detail leaves the range of the card', async () => {
  for (const [width, height] of [
    [3000, 300],
    [300, 3000],
    [640, 480],
    [20, 20],
  ] as const) {
    const url = await dataUrl(width, height)
    for (const [detail, most] of [
      ['low', 112],
      ['original', 400],
    ] as const) {
      const [columns, rows] = await gridOf(url, detail)
      expect(columns * rows).toBeLessThanOrEqual(most)
      expect(columns * rows).toBeGreaterThanOrEqual(16)
      if (width !== height) expect(columns > rows).toBe(width > height)
    }
  }
})

test('original loses no pixel of an image that fits, where auto rounds', async () => {
  const url = await dataUrl(10 * UNIT + 5, 8 * UNIT + 5)
  expect(await gridOf(url)).toEqual([10, 8])
  expect(await gridOf(url, 'original')).toEqual([11, 9])
})

test.each([null, '', 'LOW', 'ultra', 7, { low: true }])('%j counts as left out', async (detail) => {
  expect(await gridOf(await dataUrl(1000, 1000), detail)).toEqual([20, 20])
})

test('uploaded files, tool results and multilook have it as well', async () => {
  const form = new FormData()
  form.set('purpose', 'vision')
  form.set('file', new Blob([new Uint8Array(await png(1000, 1000))], { type: 'image/png' }), 'a.png')
  const authorization = `Bearer ${server.service.apiKey}`
  const uploaded = await fetch(`${server.url}/v1/files`, { method: 'POST', headers: { authorization }, body: form })
  const { id } = await jsonOf<{ id: string }>(uploaded)
  const low = { type: 'image_file_id', image_file_id: { file_id: id, detail: 'low' } }
  const url = { type: 'image_url', image_url: { url: await dataUrl(1000, 1000), detail: 'low' } }
  const call = { id: 'a', type: 'function', function: { name: 'look', arguments: '{}' } }
  const messages = [
    { role: 'user', content: [low] },
    { role: 'assistant', tool_calls: [call] },
    { role: 'tool', tool_call_id: 'a', content: [url] },
  ]
  expect((await server.post('/v1/chat/completions', { model: MODEL, messages })).status).toBe(200)
  expect(grids()).toEqual([
    [10, 10],
    [10, 10],
  ])
  const context = [{ role: 'user', content: [low] }]
  const multilook = { model: MODEL, context, prompts: [{ content: [url, { type: 'text', text: 'What?' }] }] }
  expect((await server.post('/v1/chat/completions/multilook', multilook)).status).toBe(200)
  expect(grids()).toEqual([
    [10, 10],
    [10, 10],
  ])
})
