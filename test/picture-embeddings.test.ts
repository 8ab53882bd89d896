import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Ollama } from 'ollama'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Engine } from '../src/inference/contract/engine.ts'
import type { PromptPart } from '../src/inference/contract/parts.ts'
import { startEngine } from '../src/inference/engines/engines.ts'
import { loadNativeLibraries } from '../src/inference/local/native/libraries.ts'
import { locateNativeLibraries } from '../src/inference/local/native/native-paths.ts'
import { encodePng } from '../src/media/png.ts'
import { loadCard, loadLocalCard } from '../src/models/card.ts'
import { BatchClient } from './support/batches.ts'
import { type WrittenFile, writeGguf } from './support/gguf-writer.ts'
import { picture, trusted, untrusted } from './support/local-engine.ts'
import { KEY_ENV } from './support/openai/card.ts'
import { ScriptedServer } from './support/openai/scripted-server.ts'
import { errorOf, jsonOf, KEY, startTestServer, type TestServer } from './support/server.ts'
import { tinyBert, tinyQwen3Vl, WIDTH } from './support/tiny-models/embedding.ts'
import { PlainLoop } from './support/tiny-models/plain-loop.ts'
import { qwen3Vl } from './support/tiny-models/qwen.ts'

interface List {
  readonly data: readonly { readonly embedding: readonly number[] }[]
  readonly usage: { readonly prompt_tokens: number }
}
interface Ranked {
  readonly results: readonly { readonly index: number; readonly relevance_score: number }[]
  readonly usage: { readonly total_tokens: number }
}

/** llama.cpp rounds keys and values to 16 bits, after sums in another order. */
const PARITY = 1e-3
const CONTEXT = 512
/** Pictures of a size that the encoder takes as it is: 4 x 3 tokens. */
const PICTURES = [1, 2, 3, 4, 5].map((seed) => picture(128, 96, seed))
const PICTURE_TOKENS = 12
const LONG = 'x '.repeat(CONTEXT)

let folder: string
let server: TestServer
let base64: readonly string[]
let images: readonly string[]
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'lookout-picture-embeddings-'))
  const write = async (id: string, file: WrittenFile, fields: object = {}) => {
    await mkdir(join(folder, id))
    await writeGguf(join(folder, id, 'model.gguf'), file)
    await writeGguf(join(folder, id, 'mmproj.gguf'), qwen3Vl.encoder!())
    const engine = { model: 'model.gguf', projector: 'mmproj.gguf', contextTokens: CONTEXT }
    const card = { serves: [{ id }], engine, image: qwen3Vl.image, load: 'first_use', ...fields }
    await writeFile(join(folder, id, 'card.json'), JSON.stringify(card))
  }
  await write('sees', tinyQwen3Vl('last'))
  await write('plain', tinyQwen3Vl('last'), { embedding: { prompt: '{input}' } })
  await write('rates', tinyQwen3Vl('rank'))
  await write('reads', tinyBert('last'), { engine: { model: 'model.gguf' }, image: undefined })
  base64 = await Promise.all(PICTURES.map(async ({ image }) => (await encodePng(image)).toString('base64')))
  images = base64.map((data) => `data:image/png;base64,${data}`)
  server = await startTestServer({
    startEngine,
    environment: {
      LOOKOUT_MODEL_CARD: join(folder, 'sees', 'card.json'),
      LOOKOUT_MODELS: folder,
      LOOKOUT_OLLAMA: 'on',
      LOOKOUT_BATCH_LINES: '4',
    },
  })
})
afterAll(async () => {
  await server?.close()
  await rm(folder, { recursive: true, force: true })
})

async function embed(body: object): Promise<List> {
  const response = await server.post('/v1/embeddings', { model: 'sees', ...body })
  expect(response.status).toBe(200)
  return jsonOf<List>(response)
}

async function vectorOf(body: object): Promise<readonly number[]> {
  return (await embed(body)).data[0]!.embedding
}

/** One for each document, in the order of the request. */
async function rate(query: unknown, documents: readonly unknown[]): Promise<readonly number[]> {
  const response = await server.post('/v1/rerank', { model: 'rates', query, documents })
  expect(response.status).toBe(200)
  const { results } = await jsonOf<Ranked>(response)
  return results.toSorted((a, b) => a.index - b.index).map(({ relevance_score: score }) => score)
}

const shown = (image: string) => ({ type: 'image_url', image_url: { url: image } })
const written = (text: string) => ({ type: 'text', text })

function largestDifference(a: ArrayLike<number>, b: ArrayLike<number>): number {
  return Math.max(...Array.from(a, (value, at) => Math.abs(value - b[at]!)))
}

function normalised(vector: readonly number[]): readonly number[] {
  const length = Math.hypot(...vector)
  return vector.map((value) => value / length)
}

describe('vectors of pictures', () => {
  test("are what llama.cpp's own loop makes its next token from", async () => {
    const { tensors } = tinyQwen3Vl('last')
    const data = tensors.find(({ name }) => name === 'output.weight')!.read() as Buffer
    const weights = new Float32Array(data.buffer.slice(data.byteOffset, data.byteOffset + data.length))
    const card = await loadLocalCard(join(folder, 'sees', 'card.json'))
    using loop = new PlainLoop(loadNativeLibraries(locateNativeLibraries()), card)
    const text = 'the robot and its room'
    const parts: PromptPart[] = [
      trusted("<|im_start|>system\nRepresent the user's input.<|im_end|>\n<|im_start|>user\n"),
      ...[PICTURES[0]!, untrusted(text)],
      trusted('<|im_end|>\n<|im_start|>assistant\n'),
    ]
    const [step] = loop.steps(parts, 1)
    const vector = await vectorOf({ input: { image: images[0], text } })
    const logits = Array.from(step!.logits, (_, token) =>
      vector.reduce((sum, value, at) => sum + value * weights[token * WIDTH + at]!, 0),
    )
    expect(largestDifference(normalised(logits), normalised([...step!.logits]))).toBeLessThan(PARITY)
    expect(Math.hypot(...vector)).toBeCloseTo(1, 5)
  })

  test('are the same alone, again and among others, and differ with the picture and with the text', async () => {
    const alone = await embed({ input: { image: images[0] } })
    const fresh = images.map((image, index) => ({ image, text: `again ${index}` }))
    const { data, usage } = await embed({ input: [{ image: images[0] }, 'the robot', ...fresh, { image: images[0] }] })
    const vectors = data.map(({ embedding }) => embedding)
    expect(vectors[0]).toEqual(alone.data[0]!.embedding)
    expect(vectors.at(-1)).toEqual(vectors[0])
    for (const [index, input] of fresh.entries()) {
      // Nothing is known of another organisation's caches: these are computed again.
      const engine = await ownEngine()
      expect(largestDifference(await vectorBy(engine, index, input.text), vectors[index + 2]!)).toBe(0)
    }
    expect(new Set(vectors.map((vector) => vector.join())).size).toBe(vectors.length - 1)
    const text = await embed({ input: '' })
    expect(alone.usage.prompt_tokens).toBe(text.usage.prompt_tokens + PICTURE_TOKENS + 2)
    expect(usage.prompt_tokens).toBeGreaterThan(7 * alone.usage.prompt_tokens)
  })

  test('are the same in all forms that clients send', async () => {
    const text = 'the robot'
    const vector = await vectorOf({ input: [{ image: images[1], text }] })
    const content = [shown(images[1]!), written(text)]
    for (const body of [
      { input: { image: base64[1], text } },
      { messages: [{ role: 'user', content }] },
      {
        messages: [
          { role: 'system', content: "Represent the user's input." },
          { role: 'user', content },
        ],
      },
      // Dify asks so, as vLLM's example for Qwen3-VL-Embedding does.
      {
        messages: [
          { role: 'system', content: [written("Represent the user's input.")] },
          { role: 'user', content },
          { role: 'assistant', content: [written('')] },
        ],
        ...{ encoding_format: 'float', continue_final_message: true, add_special_tokens: true },
      },
      {
        messages: [
          { role: 'user', content },
          { role: 'assistant', content: '' },
        ],
        continue_final_message: true,
      },
    ])
      expect(await vectorOf(body)).toEqual(vector)
    expect(await vectorOf({ messages: [{ role: 'user', content: text }] })).toEqual(await vectorOf({ input: text }))
    expect(await vectorOf({ input: { text } })).toEqual(await vectorOf({ input: [text] }))
    const told = {
      messages: [
        { role: 'system', content: 'Find it.' },
        { role: 'user', content },
      ],
    }
    expect(await vectorOf(told)).not.toEqual(vector)
  })

  test('of large pictures in large bodies are those of the files', async () => {
    const bytes = await encodePng(noise(400, 300))
    expect(bytes.length).toBeGreaterThan(256 * 1024)
    const image = `data:image/png;base64,${bytes.toString('base64')}`
    const form = new FormData()
    form.set('purpose', 'vision')
    form.set('file', new Blob([new Uint8Array(bytes)]), 'noise.png')
    const headers = { authorization: `Bearer ${KEY}` }
    const uploaded = await fetch(`${server.url}/v1/files`, { method: 'POST', headers, body: form })
    const { id } = await jsonOf<{ id: string }>(uploaded)
    const vector = await vectorOf({ input: [{ image }] })
    expect(await vectorOf({ input: { image: bytes.toString('base64') } })).toEqual(vector)
    const content = [{ type: 'image_file_id', image_file_id: { file_id: id } }]
    expect(await vectorOf({ messages: [{ role: 'user', content }] })).toEqual(vector)
  })

  test('have the prompt of the card around them, or none', async () => {
    const own = await embed({ model: 'plain', input: [{ image: images[0] }, 'x'] })
    expect(own.usage.prompt_tokens).toBeLessThan(PICTURE_TOKENS + 10)
    expect(own.data[0]!.embedding).not.toEqual(await vectorOf({ input: { image: images[0] } }))
  })

  test('are made for lines of batches', async () => {
    const batches = new BatchClient(server.url, KEY)
    const line = { custom_id: 'a', body: { model: 'sees', input: [{ image: images[2] }] } }
    const { output } = await batches.outputOf(
      await batches.ended((await batches.start([line], { url: '/v1/embeddings' })).id),
    )
    const own = await embed({ input: [{ image: images[2] }] })
    expect(output.map(({ response }) => response!.body)).toEqual([{ ...own, id: expect.stringMatching(/^embd-/) }])
  })

  test("what ends a prompt stays when Ollama's client has a text cut", async () => {
    const { prompt_eval_count: tokens } = await new Ollama({ host: server.url }).embed({ model: 'sees', input: LONG })
    expect(tokens).toBe(CONTEXT)
  })
})

describe('scores of pictures', () => {
  test('are the same in all forms that clients send, and differ with the picture', async () => {
    const [first, second] = images
    const scores = await rate('robot', [
      ...[{ image: first }, { content: [shown(first!)] }, { image: base64[0] }],
      ...[{ image: second }, 'robot', { image: first, text: 'x' }],
    ])
    expect(new Set(scores.slice(0, 3)).size).toBe(1)
    expect(new Set(scores).size).toBe(4)
    const query = { content: [shown(second!), written('robot')] }
    const [asked, again] = await rate(query, [{ image: first }, { image: first }])
    expect(asked).toBe(again)
    expect(asked).not.toBe(scores[0])
    expect(await rate({ image: second, text: 'robot' }, [{ image: first }])).toEqual([asked])
  })
})

test.each([
  [
    'input[1].image',
    /not support image input/,
    { model: 'reads', input: ['x', { image: 'data:image/png;base64,eA==' }] },
  ],
  ['messages[0].content[0].image_url', /not support image input/, { model: 'reads', messages: [user('eA==')] }],
  ['input[0].image', /./, { input: [{ image: 'eA==' }] }],
  ['input.image', /base64/, { input: { image: '%%%' } }],
  ['input[1].image', /./, { input: ['x', { image: 'http://127.0.0.1:9/x.png' }] }],
  ['input', /./, { input: [{}] }],
  ['input', /./, { input: [{ image: 'eA==', video: 'x' }] }],
  ['input', /one of 'input' and 'messages'/, {}],
  ['input', /one of 'input' and 'messages'/, { input: 'x', messages: [{ role: 'user', content: 'x' }] }],
  ['messages', /role 'user'/, { messages: [{ role: 'system', content: 'x' }] }],
  [
    'messages[1].content',
    /./,
    { messages: [user('eA=='), { role: 'assistant', content: 'x' }], continue_final_message: true },
  ],
  ['continue_final_message', /last message/, { messages: [user('eA=='), { role: 'assistant', content: '' }] }],
  ['continue_final_message', /last message/, { messages: [user('eA==')], continue_final_message: true }],
  ['messages', /role 'user'/, { messages: [{ role: 'assistant', content: '' }], continue_final_message: true }],
  ['messages', /role 'user'/, { messages: [user('eA=='), user('eA=='), user('eA==')] }],
  ['messages', /not told what/, { model: 'plain', messages: [{ role: 'system', content: 'x' }, user('eA==', 'text')] }],
  ['input[1]', /tokens, but this model's maximum context length is 512 tokens/, { input: ['x', LONG] }],
  [null, /at most 256 images/, { input: Array(257).fill({ image: 'eA==' }) }],
])('rejects %s: %s', async (param, message, body) => {
  const response = await server.post('/v1/embeddings', { model: 'sees', ...body })
  expect(response.status).toBe(400)
  const error = await errorOf(response)
  expect(error).toMatchObject({ type: 'invalid_request_error', message: expect.stringMatching(message) })
  if (param === null) expect(error.param).toBeNull()
  else expect(error.param!.startsWith(param)).toBe(true)
})

test.each([
  ['documents[1].image', { documents: ['x', { image: 'eA==' }] }],
  ['query.image', { query: { image: 'eA==' } }],
  ['documents[0].content[0].image_url.url', { documents: [{ content: [shown('eA==')] }] }],
  ['documents', { documents: [{ image: 'eA==', content: [written('x')] }] }],
])('does not rate %s', async (param, body) => {
  const response = await server.post('/v1/rerank', { model: 'rates', query: 'x', documents: ['x'], ...body })
  expect(response.status).toBe(400)
  expect((await errorOf(response)).param!.startsWith(param)).toBe(true)
})

test('models say that they see', async () => {
  const { data } = await jsonOf<{ data: { id: string; capabilities: string[]; modalities: string[] }[] }>(
    await server.get('/v1/models?extended=true'),
  )
  const of = (id: string) => data.find((model) => model.id === id)!
  expect(of('sees')).toMatchObject({ capabilities: ['embeddings'], modalities: ['text', 'image'], output_formats: [] })
  expect(of('rates')).toMatchObject({ capabilities: ['rerank'], modalities: ['text', 'image'] })
  expect(of('reads').modalities).toEqual(['text'])
})

let own: Promise<Engine> | undefined
function ownEngine(): Promise<Engine> {
  own ??= loadCard(join(folder, 'sees', 'card.json')).then((card) => startEngine(card))
  return own
}
afterAll(async () => (await own)?.close())

async function vectorBy(engine: Engine, index: number, text: string, organisation = text): Promise<Float32Array> {
  const content = { parts: [PICTURES[index]!, untrusted(text)] }
  const signal = new AbortController().signal
  const { vectors } = await engine.embed!({ organisation, inputs: [{ content, param: 'input' }] }, signal)
  for await (const { vector } of vectors) return vector
  throw new Error('There is no vector.')
}

describe('an engine', () => {
  test('computes no picture again, and tells no other organisation that it is known', async () => {
    const engine = await ownEngine()
    const prefilled = async () => (await engine.stats!()).prefilledTokens
    const first = await vectorBy(engine, 0, 'kept', 'a')
    const computed = await prefilled()
    expect(await vectorBy(engine, 0, 'kept', 'a')).toEqual(first)
    expect(await prefilled()).toBe(computed)
    expect(await vectorBy(engine, 1, 'kept', 'a')).not.toEqual(first)
    expect(await vectorBy(engine, 0, 'kept', 'b')).toEqual(first)
    expect(await prefilled()).toBeGreaterThan(computed)
  })

  const many = (text: string) =>
    Array.from({ length: 100 }, (_, index) => {
      return { content: { parts: [PICTURES[index % 5]!, untrusted(`${text} ${index}`)] }, param: 'input' }
    })

  test('computes a text of another organisation between pictures', async () => {
    const engine = await ownEngine()
    const { signal } = new AbortController()
    const inputs = many('large')
    const large = await engine.embed!({ organisation: 'large', inputs }, signal)
    let received = 0
    const reading = (async () => {
      for await (const _ of large.vectors) received++
    })()
    const small = [{ content: 'the robot', param: 'input' }]
    const { vectors } = await engine.embed!({ organisation: 'small', inputs: small }, signal)
    for await (const { vector } of vectors) expect(vector).toHaveLength(WIDTH)
    expect(received).toBeLessThan(inputs.length)
    await reading
    expect(received).toBe(inputs.length)
  })

  test('goes on when a client leaves in the middle', async () => {
    const engine = await ownEngine()
    const leaving = new AbortController()
    const { vectors } = await engine.embed!({ organisation: 'leaving', inputs: many('left') }, leaving.signal)
    const read = (async () => {
      for await (const _ of vectors) leaving.abort(new Error('left'))
    })()
    await expect(read).rejects.toThrow('left')
    expect(await vectorBy(engine, 0, 'after')).toHaveLength(WIDTH)
    await expect.poll(async () => await engine.stats!()).toMatchObject({ running: 0, waiting: 0 })
  })
})

describe('on vLLM', () => {
  let behind: ScriptedServer
  let front: TestServer
  beforeAll(async () => {
    behind = await ScriptedServer.start()
    behind.models = [{ id: 'm' }]
    const cards = join(folder, 'remote')
    const write = async (id: string, fields: object) => {
      const engine = { type: 'openai', urls: [behind.url], model: 'm', contextTokens: CONTEXT, apiKeyEnv: KEY_ENV }
      const card = { engine, embedding: {}, load: 'first_use', ...fields }
      await mkdir(join(cards, id), { recursive: true })
      await writeFile(join(cards, id, 'card.json'), JSON.stringify(card))
    }
    process.env[KEY_ENV] = KEY
    await write('front', { serves: [{ id: 'front' }], image: qwen3Vl.image })
    await write('blind', { serves: [{ id: 'blind' }] })
    await write('front-rank', { serves: [{ id: 'front-rank', capabilities: ['rerank'] }], image: qwen3Vl.image })
    const environment = { LOOKOUT_MODEL_CARD: join(cards, 'front', 'card.json'), LOOKOUT_MODELS: cards }
    front = await startTestServer({ startEngine, environment })
  })
  afterAll(async () => {
    delete process.env[KEY_ENV]
    await front?.close()
    await behind?.[Symbol.asyncDispose]()
  })

  test('each picture is a conversation of its own, and texts stay together', async () => {
    const one = { data: [{ index: 0, embedding: [3, 4] }], usage: { prompt_tokens: 7 } }
    const two = { data: [0, 1].map((index) => ({ index, embedding: [1, 0] })), usage: { prompt_tokens: 2 } }
    behind.scripts = [{ body: two }, { body: one }]
    behind.asked.length = 0
    const input = ['x', 'y', { image: images[0] }, { image: images[0], text: 'the robot' }]
    const response = await front.post('/v1/embeddings', { model: 'front', input })
    expect(response.status).toBe(200)
    expect((await jsonOf<List>(response)).usage.prompt_tokens).toBe(16)
    expect(behind.asked[0]).toEqual({ model: 'm', input: ['x', 'y'], encoding_format: 'float' })
    expect(behind.asked.slice(1).map(({ messages }) => messages)).toEqual(
      expect.arrayContaining([
        [{ role: 'user', content: [shown(images[0]!)] }],
        [{ role: 'user', content: [shown(images[0]!), written('the robot')] }],
      ]),
    )
  })

  test('a document may be a picture, and what it is for may be said', async () => {
    behind.scripts = [{ body: { results: [0, 1].map((index) => ({ index, relevance_score: index / 2 })) } }]
    behind.asked.length = 0
    const documents = ['x', { image: images[0] }]
    expect((await front.post('/v1/rerank', { model: 'front-rank', query: 'y', documents })).status).toBe(200)
    expect(behind.asked[0]).toMatchObject({ query: 'y', documents: ['x', { content: [shown(images[0]!)] }] })
    behind.scripts = [{ body: { data: [{ index: 0, embedding: [1] }] } }]
    const messages = [
      { role: 'system', content: 'Find it.' },
      { role: 'user', content: 'x' },
    ]
    expect((await front.post('/v1/embeddings', { model: 'front', messages })).status).toBe(200)
    expect(behind.asked[1]).toEqual({ model: 'm', messages, encoding_format: 'float' })
  })

  test('a model whose card has no image sizes takes none', async () => {
    const response = await front.post('/v1/embeddings', { model: 'blind', input: [{ image: images[0] }] })
    expect(response.status).toBe(400)
    expect(await errorOf(response)).toMatchObject({ param: 'input[0].image' })
  })
})

function user(data: string, type: 'image_url' | 'text' = 'image_url') {
  return { role: 'user', content: [type === 'text' ? written(data) : shown(data)] }
}

function noise(width: number, height: number) {
  let state = 1
  const data = new Uint8Array(width * height * 3).map(() => {
    state = (state * 48_271) % 2_147_483_647
    return state & 255
  })
  return { width, height, data }
}
