import sharp from 'sharp'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { FakeEngine, type Script } from '../../../test/support/fake-engine.ts'
import { ModelRegistry } from '../../inference/catalog/registry.ts'
import { InlineMedia } from '../../media/inline-media.ts'
import { MediaLoader } from '../../media/media-loader.ts'
import { loadCard } from '../../models/card.ts'
import { Conversations } from '../conversations.ts'
import { collectReply } from '../reply/reply.ts'
import type { ChatRequest } from './chat-request.ts'
import type { Message, UserMessage } from './message.ts'

let media: MediaLoader
let conversations: Conversations
let image: Buffer
const engine = new FakeEngine()
const registry = new ModelRegistry()
/** Bytes of inline media that are not released yet. */
let heldBytes = 0

beforeAll(async () => {
  registry.add(await loadCard('models/lookout-nano/card.json'), engine)
  media = new MediaLoader()
  conversations = new Conversations({ registry, media })
  image = await sharp({ create: { width: 90, height: 60, channels: 3, background: '#c83232' } })
    .png()
    .toBuffer()
})
afterAll(async () => {
  await conversations?.close()
  await media?.close()
})
beforeEach(() => {
  heldBytes = 0
  engine.works.length = 0
})

function inline(bytes: Uint8Array): InlineMedia {
  heldBytes += bytes.byteLength
  return new InlineMedia(bytes, () => {
    heldBytes -= bytes.byteLength
  })
}

const caller = () => ({ model: registry.list()[0]!, organisation: 'a' })
const never = new AbortController().signal
const sampling = { temperature: 0, topP: 1, topK: 0, frequencyPenalty: 0, presencePenalty: 0 }
const vision = { annotationFormat: null, enableThinking: null, enableAudioInVideo: null, focus: null }
const options = {
  maxTokens: null,
  maxTokensParam: 'max_completion_tokens' as const,
  sampling,
  topLogProbs: null,
  reasoningEffort: null,
  vision,
}

const asking = (...all: Uint8Array[]): UserMessage => ({
  role: 'user',
  content: all.map((bytes) => ({ type: 'image_url' as const, image_url: { url: inline(bytes) } })),
})
function chat(message: Message, fields: Partial<ChatRequest> = {}) {
  const plain = { tools: [], toolUse: { choice: 'auto', parallel: true }, structure: null, streamed: false } as const
  return conversations.startChat({ ...options, ...plain, messages: [message], ...fields }, caller(), never)
}

/** Sets the engine's script. Returns how many bytes are held when the engine gets the prompt. */
function says(script: Script): { readonly heldBytes: () => number | undefined } {
  let then: number | undefined
  engine.script = {
    ...script,
    refusal: () => {
      then ??= heldBytes
      return undefined
    },
  }
  return { heldBytes: () => then }
}

test('a chat releases inline media before the engine gets the prompt', async () => {
  const asked = says({ texts: ['A box.'] })
  const message = asking(image)
  expect(heldBytes).toBe(image.byteLength)
  const reply = await collectReply(await chat(message))
  expect(reply.text).toBe('A box.')
  expect(engine.works[0]!.prefix.filter(({ type }) => type === 'image')).toHaveLength(1)
  expect(asked.heldBytes()).toBe(0)
})

test('video frames and audio are released as well', async () => {
  const frames = [0, 500].map((timestamp_ms) => ({ image_url: { url: inline(image) }, timestamp_ms }))
  says({ texts: ['Two.'] })
  await collectReply(await chat({ role: 'user', content: [{ type: 'video_frames', video_frames: { frames } }] }))
  expect(heldBytes).toBe(0)
  const audio = { data: inline(Buffer.from('RIFF....WAVE')), format: 'wav' }
  await expect(chat({ role: 'user', content: [{ type: 'input_audio', input_audio: audio }] })).rejects.toMatchObject({
    status: 400,
  })
  expect(heldBytes).toBe(0)
})

test('an error about inline media names its input, and all media of the request is released', async () => {
  await expect(chat(asking(image, Buffer.from('GIF89a'), image))).rejects.toMatchObject({
    status: 400,
    message: expect.stringContaining('the data is image/gif'),
    param: 'messages[0].content[1].image_url.url',
  })
  expect(heldBytes).toBe(0)
  await expect(chat(asking(Buffer.alloc(0)))).rejects.toMatchObject({ status: 400, message: 'The data is empty' })
})

test('a chat rejected before decoding releases its media', async () => {
  const refused = chat(asking(image), {
    vision: { ...vision, focus: true },
    structure: { type: 'regex', pattern: 'a+' },
  })
  await expect(refused).rejects.toMatchObject({ status: 400 })
  expect(heldBytes).toBe(0)
})

test('with the focus tool, images are held until the reply has ended', async () => {
  const call = { name: 'focus', arguments: { box: [0, 0, 500, 500] } }
  engine.script = { texts: [`<tool_call>\n${JSON.stringify(call)}\n</tool_call>`] }
  const reply = await chat(asking(image), { vision: { ...vision, focus: true } })
  expect(heldBytes).toBe(image.byteLength)
  expect((await collectReply(reply)).finish.reason).toBe('tool_limit')
  // Each round decoded a region of the image.
  expect(engine.works.at(-1)!.prefix.filter(({ type }) => type === 'image').length).toBeGreaterThan(2)
  expect(heldBytes).toBe(0)
})

test('with the focus tool, media is released when the client disconnects before the first text', async () => {
  engine.script = { texts: ['tick'], endless: true, delayMs: 5 }
  const client = new AbortController()
  const plain = { tools: [], toolUse: { choice: 'auto', parallel: true }, structure: null, streamed: false } as const
  const request = { ...options, ...plain, messages: [asking(image)], vision: { ...vision, focus: true } }
  await conversations.startChat(request, caller(), client.signal)
  expect(heldBytes).toBe(image.byteLength)
  client.abort(new Error('client disconnected'))
  expect(heldBytes).toBe(0)
})

test('multilook releases the media of the context and of all prompts, failed ones included', async () => {
  const asked = says({ texts: ['Yes.'] })
  const prompts = [asking(image).content, asking(Buffer.from('GIF89a')).content, 'And this?']
  const request = { ...options, context: [asking(image)], prompts, n: 1, streamed: false }
  const types: string[] = []
  for await (const event of await conversations.startMultilook(request, caller(), never)) {
    if (event.type === 'result') types[event.prompt] = event.result.type
  }
  expect(types).toEqual(['answer', 'failure', 'answer'])
  expect(asked.heldBytes()).toBe(0)
})

test('detect releases the image, the exemplars and the negative exemplars', async () => {
  const asked = says({ texts: [''] })
  const box = { topLeft: { x: 1, y: 1 }, bottomRight: { x: 20, y: 20 } }
  const request = {
    picture: inline(image),
    categories: ['ring'],
    exemplars: [{ picture: inline(image), annotations: [{ mention: 'ring', point: null, box }] }],
    negatives: [inline(image)],
    output: 'box',
    thinking: false,
    tiles: null,
    confidence: null,
  } as const
  await conversations.detect(request, caller(), never)
  expect(asked.heldBytes()).toBe(0)
})
