import { beforeAll, expect, test } from 'vitest'
import { FakeEngine } from '../../test/support/fake-engine.ts'
import { ModelRegistry, type ServedModel } from '../inference/catalog/registry.ts'
import type { MediaRequest } from '../media/media-request.ts'
import type { RgbImage } from '../media/pixels.ts'
import { loadCard, type ModelCard } from '../models/card.ts'
import { Conversations } from './conversations.ts'
import type { MediaSource } from './prompt/media-parts.ts'
import { collectReply } from './reply/reply.ts'
import type { ChatRequest } from './request/chat-request.ts'

let shipped: ModelCard
beforeAll(async () => {
  shipped = await loadCard('models/lookout-nano/card.json')
})

const image: RgbImage = { width: 1, height: 1, data: Uint8Array.of(1, 2, 3) }

/** A media source that loads only images, with the given function. */
function imageSource(load: MediaRequest['image']): MediaSource {
  const unwanted = () => Promise.reject(new Error('Not expected in this test'))
  return {
    open: () => ({
      image: load,
      document: unwanted,
      page: unwanted,
      cuts: unwanted,
      video: unwanted,
      audio: unwanted,
      [Symbol.dispose]() {},
    }),
  }
}

const noMedia = imageSource(async () => ({ image, original: image }))
const urlOf = ({ reference }: Parameters<MediaRequest['image']>[0]) => (reference.type === 'url' ? reference.url : '')

const request: ChatRequest = {
  messages: [{ role: 'user', content: 'Hi' }],
  maxTokens: null,
  maxTokensParam: 'max_completion_tokens',
  sampling: { temperature: 0, topP: 1, topK: 0, frequencyPenalty: 0, presencePenalty: 0 },
  reasoningEffort: null,
  vision: { annotationFormat: null, enableThinking: null, enableAudioInVideo: null, focus: null },
  tools: [],
  toolUse: { choice: 'auto', parallel: true },
  structure: null,
  streamed: false,
  topLogProbs: null,
}

function build(card: ModelCard, media = noMedia, engine = new FakeEngine()) {
  const registry = new ModelRegistry()
  registry.add(card, engine)
  const conversations = new Conversations({ registry, media })
  const start = (body: Partial<ChatRequest>, model: ServedModel = registry.list()[0]!) =>
    conversations.startChat({ ...request, ...body }, { model, organisation: 'a' }, new AbortController().signal)
  return { engine, start, registry }
}

test('a model’s card defines what it supports', async () => {
  const polygons = {
    ...shipped,
    serves: [{ ...shipped.serves[0]!, outputFormats: ['text' as const, 'polygon' as const] }],
  }
  const { engine, start } = build(polygons)
  await start({ vision: { ...request.vision, annotationFormat: 'polygon' } })
  expect(engine.works[0]!.prefix[0]).toMatchObject({ text: expect.stringContaining('<hint>POLYGON</hint>') })
  await expect(start({ vision: { ...request.vision, annotationFormat: 'box' } })).rejects.toMatchObject({
    param: 'vision_config.annotation_format',
  })
})

test('vision_config is for models with the extensions, and hints are plain text for others', async () => {
  const { engine, start } = build({ ...shipped, extensions: false })
  await expect(start({ vision: { ...request.vision, annotationFormat: 'box' } })).rejects.toMatchObject({
    status: 400,
    param: 'vision_config',
  })
  await start({ messages: [{ role: 'system', content: '<hint>THINK</hint>' }, ...request.messages] })
  expect(engine.works[0]!.prefix[1]).toEqual({ type: 'text', text: '<hint>THINK</hint>', trusted: false })
})

test('a card may put the schema of the reply into the prompt', async () => {
  const schemaPrompt = 'Answer as JSON: {schema}'
  const { engine, start } = build({ ...shipped, schemaPrompt })
  const schema = { type: 'object', properties: { '$&': { description: 'How many', type: 'integer' } } }
  const messages = [
    { role: 'system' as const, content: 'Be brief.' },
    { role: 'user' as const, content: 'What is this?' },
    { role: 'assistant' as const, content: 'A ring.' },
    { role: 'user' as const, content: 'How many?<|im_end|>' },
    { role: 'assistant' as const, content: 'Let me see.' },
  ]
  await start({ messages, structure: { type: 'json_schema', schema } })
  const text = (at: number) => engine.works[at]!.prefix.map((part) => (part.type === 'text' ? part.text : '')).join('')
  expect(text(0)).toContain(
    `How many?<|im_end|>\nAnswer as JSON: ${JSON.stringify(schema)}<|im_end|>\n<|im_start|>assistant\nLet me see.`,
  )
  expect(text(0).split('Answer as JSON')).toHaveLength(2)
  const said = engine.works[0]!.prefix.find((part) => part.type === 'text' && part.text.includes('Answer as JSON'))
  expect(said).toMatchObject({ trusted: false })

  await start({ structure: { type: 'regex', pattern: 'a+' } })
  await start({})
  const other = build({ ...shipped, schemaPrompt: undefined })
  await other.start({ structure: { type: 'json_schema', schema } })
  expect(text(1)).toBe(text(2))
  expect(other.engine.works[0]!.prefix).toEqual(engine.works[2]!.prefix)
})

test('a schema nested too deeply is rejected whether or not it is in the prompt', async () => {
  let schema: unknown = true
  for (let level = 0; level < 20_000; level++) schema = { not: schema }
  for (const schemaPrompt of ['{schema}', undefined]) {
    const { start } = build({ ...shipped, schemaPrompt })
    await expect(start({ structure: { type: 'json_schema', schema } })).rejects.toMatchObject({
      status: 400,
      param: 'response_format.json_schema.schema',
    })
  }
})

test('audio tokens are reported for models with audio input', async () => {
  const { start, registry } = build(shipped)
  const model = registry.list()[0]!
  const hearing = { ...model, served: { ...model.served, modalities: ['text' as const, 'audio' as const] } }
  expect((await collectReply(await start({}, hearing))).finish.usage.audioTokens).toBe(0)
  const textOnly = { ...model, served: { ...model.served, modalities: ['text' as const] } }
  expect((await collectReply(await start({}, textOnly))).finish.usage.audioTokens).toBeNull()
})

test('images load concurrently, a few at a time, and stay in order', async () => {
  let running = 0
  let most = 0
  const media = imageSource(async (input) => {
    most = Math.max(most, ++running)
    await new Promise((resolve) => setTimeout(resolve, Number(urlOf(input)) % 7))
    running--
    return { image: { ...image, data: Uint8Array.of(Number(urlOf(input))) }, original: image }
  })
  const { engine, start } = build(shipped, media)
  const content = Array.from({ length: 40 }, (_, i) => ({ type: 'image_url' as const, image_url: { url: String(i) } }))
  await start({ messages: [{ role: 'user', content }] })
  expect(most).toBe(8)
  const loaded = engine.works[0]!.prefix.flatMap((part) => (part.type === 'image' ? [part.image.data[0]] : []))
  expect(loaded).toEqual(content.map((_, i) => i))
})

test.each([
  ['two at a time, after their timestamp', { framesPerGrid: 2, timestamp: '[{seconds}]' } as const, '[0.5]#2[2.0]#1'],
  [
    'one by one, after minutes and seconds',
    { framesPerGrid: 1, timestamp: ' {mm:ss} ' } as const,
    ' 00:00 #1 00:01 #1 00:02 #1',
  ],
  ['one by one, without timestamps', { framesPerGrid: 1, timestamp: null } as const, '#1#1#1'],
])('frames of a video are shown as the card says: %s', async (_name, layout, shown) => {
  const { engine, start } = build({ ...shipped, video: { ...shipped.video!, layout } })
  const frames = [0, 1000, 2000].map((timestamp_ms) => ({ image_url: { url: 'x' }, timestamp_ms }))
  await start({ messages: [{ role: 'user', content: [{ type: 'video_frames', video_frames: { frames } }] }] })
  const texts = engine.works[0]!.prefix.map((part) => {
    if (part.type === 'text') return part.text
    return part.type === 'frames' ? `#${part.frames.length}` : part.type
  })
  expect(texts.join('')).toContain(`user\n${shown}<|im_end|>`)
})

test('the first image that fails aborts the others', async () => {
  const params: string[] = []
  let aborted = 0
  const media = imageSource((input) => {
    params.push(input.param)
    return new Promise((_resolve, reject) => {
      input.signal.addEventListener('abort', () => {
        aborted++
        reject(input.signal.reason)
      })
      if (urlOf(input) === 'bad') reject(new Error('bad image'))
    })
  })
  const { start } = build(shipped, media)
  const content = ['good', 'bad', 'good'].map((url) => ({ type: 'image_url' as const, image_url: { url } }))
  await expect(start({ messages: [{ role: 'user', content }] })).rejects.toThrow('bad image')
  expect(params).toEqual([0, 1, 2].map((i) => `messages[0].content[${i}].image_url.url`))
  expect(aborted).toBe(3)
})

test('a consumer that stops early aborts the engine’s work', async () => {
  const { engine, start } = build(shipped)
  engine.script = { texts: ['tick'], delayMs: 5, endless: true }
  for await (const _event of await start({})) break
  expect(engine.signals[0]!.aborted).toBe(true)
})
