import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { eq } from 'drizzle-orm'
import { Ollama } from 'ollama'
import OpenAI from 'openai'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import type { Engine } from '../src/inference/contract/engine.ts'
import { startEngine } from '../src/inference/engines/engines.ts'
import { loadCard } from '../src/models/card.ts'
import * as tables from '../src/storage/schema.ts'
import { TestAccounts } from './support/accounts.ts'
import { BatchClient } from './support/batches.ts'
import { type WrittenFile, writeGguf } from './support/gguf-writer.ts'
import { KEY_ENV } from './support/openai/card.ts'
import { ScriptedServer } from './support/openai/scripted-server.ts'
import { errorOf, jsonOf, KEY, startTestServer, type TestServer } from './support/server.ts'
import { POOLING, tinyBert, tinyQwen3, WIDTH } from './support/tiny-models/embedding.ts'
import { plainBert, plainScore } from './support/tiny-models/plain-bert.ts'
import { qwen3Vl } from './support/tiny-models/qwen.ts'

interface List {
  readonly data: readonly { readonly index: number; readonly embedding: readonly number[] }[]
  readonly usage: { readonly prompt_tokens: number; readonly total_tokens: number }
}
interface Ranked {
  readonly results: readonly { readonly index: number; readonly relevance_score: number; readonly document?: unknown }[]
  readonly usage: { readonly total_tokens: number }
}

/** llama.cpp rounds keys and values to 16 bits, and takes GELU from a table of such numbers. */
const PARITY = 1e-3
/** Difference of the same text in batches of other texts. */
const ROUNDING = 1e-4
const LONG = 'x '.repeat(300)
const CLS = 2
const SEP = 3
/** Tokens of a tiny BERT, with those that begin and end a text. */
const TOKENS = [CLS, 40, 7, 12, 55, 9, 31, 18, SEP]

let folder: string
let server: TestServer
let accounts: TestAccounts
let client: OpenAI
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'lookout-embeddings-'))
  const write = async (id: string, file: WrittenFile, fields: object = {}) => {
    await mkdir(join(folder, id))
    await writeGguf(join(folder, id, 'model.gguf'), file)
    const card = { serves: [{ id }], engine: { model: 'model.gguf' }, load: 'first_use', ...fields }
    await writeFile(join(folder, id, 'card.json'), JSON.stringify(card))
  }
  for (const pooling of ['mean', 'cls', 'last', 'rank'] as const) await write(`bert-${pooling}`, tinyBert(pooling))
  await write('bert-unsaid', tinyBert(), { embedding: { pooling: 'cls', leastDimensions: 16 } })
  await write('qwen3-last', tinyQwen3('last'), { engine: { model: 'model.gguf', contextTokens: 1024 } })
  await write('qwen3-rank', tinyQwen3('rank'))
  await write('writes', qwen3Vl.language())
  accounts = await TestAccounts.open()
  server = await startTestServer({
    startEngine,
    environment: {
      LOOKOUT_MODEL_CARD: join(folder, 'writes', 'card.json'),
      LOOKOUT_MODELS: folder,
      LOOKOUT_OLLAMA: 'on',
      LOOKOUT_BATCH_LINES: '4',
    },
  })
  client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: KEY, maxRetries: 0 })
})
afterAll(async () => {
  await server?.close()
  await accounts?.close()
  await rm(folder, { recursive: true, force: true })
})

async function embed(model: string, input: unknown, fields: object = {}): Promise<List> {
  const response = await server.post('/v1/embeddings', { model, input, ...fields })
  expect(response.status).toBe(200)
  return jsonOf<List>(response)
}

async function rerank(model: string, query: string, documents: unknown, fields: object = {}): Promise<Ranked> {
  const response = await server.post('/v1/rerank', { model, query, documents, ...fields })
  expect(response.status).toBe(200)
  return jsonOf<Ranked>(response)
}

async function all<Item>(items: AsyncIterable<Item>): Promise<readonly Item[]> {
  const list: Item[] = []
  for await (const item of items) list.push(item)
  return list
}

function largestDifference(a: ArrayLike<number>, b: ArrayLike<number>): number {
  expect(a.length).toBe(b.length)
  return Math.max(...Array.from(a, (value, at) => Math.abs(value - b[at]!)))
}

function normalised(vector: Float64Array): Float64Array {
  const length = Math.hypot(...vector)
  return vector.map((value) => value / length)
}

describe('vectors', () => {
  const states = plainBert(tinyBert(), TOKENS)
  const pooled = {
    mean: Float64Array.from({ length: WIDTH }, (_, at) => states.reduce((sum, state) => sum + state[at]!, 0)),
    cls: states[0]!,
    last: states.at(-1)!,
  }

  test.each(Object.entries(pooled))('are those of BERT computed plainly: %s', async (pooling, expected) => {
    const { data } = await embed(`bert-${pooling}`, [[CLS, 8, SEP], TOKENS, TOKENS.toReversed()])
    expect(data.map(({ index }) => index)).toEqual([0, 1, 2])
    expect(largestDifference(data[1]!.embedding, normalised(expected))).toBeLessThan(PARITY)
    expect(largestDifference(data[2]!.embedding, normalised(expected))).toBeGreaterThan(0.01)
  })

  test('are pooled as the card says where the file does not', async () => {
    const [said, unsaid] = await Promise.all(['bert-cls', 'bert-unsaid'].map((model) => embed(model, 'the robot .')))
    expect(largestDifference(said!.data[0]!.embedding, unsaid!.data[0]!.embedding)).toBeLessThan(1e-6)
  })

  test('are the same for a text and its tokens, alone and among many', async () => {
    const text = 'the robot'
    const tokens = [CLS, 57, 58, SEP]
    const one = await embed('bert-mean', text)
    const given = await embed('bert-mean', tokens)
    const many = await embed('bert-mean', [...Array.from({ length: 99 }, (_, i) => 'x'.repeat(1 + (i % 40))), text])
    expect(one.usage).toEqual({ prompt_tokens: tokens.length, total_tokens: tokens.length })
    for (const { embedding } of [given.data[0]!, many.data[99]!])
      expect(largestDifference(one.data[0]!.embedding, embedding)).toBeLessThan(ROUNDING)
  })

  test('of a text that takes several calls are those of a text that takes one', async () => {
    // The first token sees itself alone, so that a longer text with the same end has another vector.
    const long = Array.from({ length: 700 }, (_, at) => 1 + ((at * 31) % 200))
    const [whole, begun, again] = (await embed('qwen3-last', [long, long.slice(0, 512), long])).data
    expect(largestDifference(whole!.embedding, again!.embedding)).toBeLessThan(1e-6)
    expect(largestDifference(whole!.embedding, begun!.embedding)).toBeGreaterThan(0.01)
  })

  test("are what OpenAI's client reads, in either form", async () => {
    const input = ['the robot', 'a , b']
    const model = 'bert-mean'
    const packed = await client.embeddings.create({ model, input })
    const floats = await client.embeddings.create({ model, input, encoding_format: 'float' })
    expect(packed.data).toHaveLength(2)
    for (const [index, { embedding }] of floats.data.entries()) {
      expect(largestDifference(packed.data[index]!.embedding, embedding)).toBeLessThan(1e-7)
      expect(Math.hypot(...embedding)).toBeCloseTo(1, 5)
    }
    expect(packed).toMatchObject({ object: 'list', model, usage: { prompt_tokens: 9, total_tokens: 9 } })
  })

  test('are cut for a model that allows it, and have length 1 again', async () => {
    const whole = await embed('bert-unsaid', 'the robot')
    const cut = await embed('bert-unsaid', 'the robot', { dimensions: 16 })
    const kept = Float64Array.from(whole.data[0]!.embedding.slice(0, 16))
    expect(largestDifference(cut.data[0]!.embedding, normalised(kept))).toBeLessThan(1e-6)
    await expect(client.embeddings.create({ model: 'bert-mean', input: 'x', dimensions: WIDTH })).resolves.toBeTruthy()
  })
})

describe('scores', () => {
  test('are those of BERT’s classifier computed plainly', async () => {
    const file = tinyBert('rank')
    // As llama-server sets a query and a document: the end of a document has no mark.
    const pair = [CLS, 57, SEP, 58]
    const { results } = await rerank('bert-rank', 'the', ['robot'])
    expect(Math.abs(results[0]!.relevance_score - plainScore(file, plainBert(file, pair)))).toBeLessThan(PARITY)
  })

  test('of texts, in the shape of text-embeddings-inference', async () => {
    const texts = ['the robot', 'a , b', 'x']
    const post = (body: object) => server.post('/rerank', { query: 'robot', texts, raw_scores: false, ...body })
    const { results } = await rerank('bert-rank', 'robot', texts)
    const plain = await jsonOf<object[]>(await post({ model: 'bert-rank' }))
    expect(plain).toEqual(results.map(({ index, relevance_score: score }) => ({ index, score })))
    const [best] = await jsonOf<object[]>(await post({ model: 'bert-rank', top_n: 1, return_text: true }))
    expect(best).toEqual({ ...plain[0], text: texts[results[0]!.index] })
    for (const [param, body] of Object.entries({
      model: {},
      raw_scores: { raw_scores: true },
      truncate: { truncate: true },
      texts: { texts: [] },
      'texts[1]': { model: 'bert-rank', texts: ['x', LONG] },
    })) {
      const response = await post(body)
      expect([response.status, (await errorOf(response)).param]).toEqual([400, param])
    }
  })

  test.each(['bert-rank', 'qwen3-rank'])(
    'put the best first, with the documents that clients send: %s',
    async (model) => {
      const documents = ['the robot', { text: 'a , b .' }, 'x', 'the the']
      const all = await rerank(model, 'robot', documents, { return_documents: true })
      const scores = all.results.map(({ relevance_score: score }) => score)
      expect(scores).toEqual(scores.toSorted((a, b) => b - a))
      expect(all.results.map(({ index }) => index).toSorted()).toEqual([0, 1, 2, 3])
      expect(Math.min(...scores)).toBeGreaterThan(0)
      expect(Math.max(...scores)).toBeLessThan(1)
      expect(all.results.find(({ index }) => index === 1)!.document).toEqual({ text: 'a , b .' })
      const best = await rerank(model, 'robot', documents, { top_n: 2 })
      expect(best.results.map(({ index }) => index)).toEqual(all.results.slice(0, 2).map(({ index }) => index))
      expect(best.results[0]).not.toHaveProperty('document')
      expect(best.usage).toEqual(all.usage)
    },
  )

  test('in the shape of Cohere’s clients, which send what they leave to the server', async () => {
    const asked = ['bert-rank', 'robot', ['the robot', 'x']] as const
    const { results } = await rerank(...asked)
    for (const fields of [
      { max_tokens_per_doc: null, priority: null, top_n: null },
      { max_chunks_per_doc: null, rank_fields: null },
      { max_tokens_per_doc: 4096, priority: 0 },
      { max_tokens_per_doc: 256 },
    ]) {
      expect((await rerank(...asked, fields)).results).toEqual(results)
    }
  })

  test.each(['bert-rank', 'qwen3-rank'])('%s: documents are cut to max_tokens_per_doc', async (model) => {
    const ask = async (document: string, fields?: object) => {
      const { results, usage } = await rerank(model, 'robot', [document], fields)
      return [usage.total_tokens, results[0]!.relevance_score] as const
    }
    const [one] = await ask('x')
    const [tokens, score] = await ask('the robot')
    const cut = await ask(`the robot ${LONG}`, { max_tokens_per_doc: 1 + tokens - one })
    expect(cut).toEqual([tokens, expect.closeTo(score, 5)])
    expect(await ask('the robot', { max_tokens_per_doc: 1 + tokens - one })).toEqual(cut)
    expect((await ask('the robot', { max_tokens_per_doc: 1 }))[0]).toBe(one)
  })

  test('no words of a document become marks of the template', async () => {
    const plain = await rerank('qwen3-rank', 'robot', ['the <|im_end|> end'])
    const { results, usage } = await rerank('qwen3-rank', 'robot', ['the  end'])
    // As text, the mark has a token for each of its bytes.
    expect(plain.usage.total_tokens - usage.total_tokens).toBeGreaterThanOrEqual('<|im_end|>'.length - 1)
    expect(plain.results[0]!.relevance_score).not.toBe(results[0]!.relevance_score)
  })
})

test.each([
  [
    'input[3]',
    /has 302 tokens, but this model's maximum context length is 256 tokens/,
    { input: ['x', 'the', 'y', LONG] },
  ],
  ['input', /length is 256/, { input: LONG }],
  ['input[1]', /no token 9999/, { input: [[1], [1, 9999]] }],
  ['input', /./, { input: [] }],
  ['input', /./, { input: [[]] }],
  ['dimensions', /64 numbers, which cannot be cut/, { input: 'x', dimensions: 8 }],
  ['encoding_format', /./, { input: 'x', encoding_format: 'int8' }],
  ['normalize', /./, { input: 'x', normalize: true }],
  ['dimensions', /from 16 to 64/, { input: 'x', model: 'bert-unsaid', dimensions: 15 }],
  ['dimensions', /from 16 to 64/, { input: 'x', model: 'bert-unsaid', dimensions: 65 }],
  ['model', /rates documents and makes no embeddings/, { input: 'x', model: 'bert-rank' }],
  ['model', /writes text and makes no embeddings/, { input: 'x', model: 'writes' }],
])('rejects %s: %s', async (param, message, body) => {
  const response = await server.post('/v1/embeddings', { model: 'bert-mean', ...body })
  expect(response.status).toBe(400)
  const error = await errorOf(response)
  expect(error).toMatchObject({ type: 'invalid_request_error', message: expect.stringMatching(message) })
  expect(error.param).toMatch(new RegExp(`^${param.replace(/[[\]]/g, '\\$&')}`))
})

test.each([
  ['documents[1]', /length is 256 tokens/, { model: 'bert-rank', documents: ['x', LONG] }],
  ['model', /makes embeddings and makes no scores/, { model: 'bert-mean', documents: ['x'] }],
  ['model', /writes text and makes no scores/, { model: 'writes', documents: ['x'] }],
  ['documents', /./, { model: 'bert-rank', documents: [] }],
  ['top_n', /./, { model: 'bert-rank', documents: ['x'], top_n: 0 }],
  ['max_tokens_per_doc', /at least 1/, { model: 'bert-rank', documents: ['x'], max_tokens_per_doc: 0 }],
  ['rank_fields', /only null/, { model: 'bert-rank', documents: ['x'], rank_fields: ['text'] }],
])('does not rate %s: %s', async (param, message, body) => {
  const response = await server.post('/v1/rerank', { query: 'the robot', ...body })
  expect(response.status).toBe(400)
  expect(await errorOf(response)).toMatchObject({ param, message: expect.stringMatching(message) })
})

test.each([
  ['chat/completions', { messages: [{ role: 'user', content: 'Hi' }] }],
  ['chat/completions/input_tokens', { messages: [{ role: 'user', content: 'Hi' }] }],
  ['chat/completions/multilook', { context: [{ role: 'user', content: 'Hi' }], prompts: ['a'] }],
  ['responses', { input: 'Hi', store: false }],
  ['decisions', { input: 'Hi', questions: [{ type: 'predicate', instructions: 'Is it?' }] }],
])('a model that makes embeddings is refused at %s', async (path, body) => {
  const response = await server.post(`/v1/${path}`, { model: 'bert-mean', ...body })
  expect(response.status).toBe(400)
  expect(await errorOf(response)).toMatchObject({
    param: 'model',
    message: "Model 'bert-mean' makes embeddings and writes no text; use POST /v1/embeddings",
  })
})

test('models say what they do', async () => {
  const { data } = await jsonOf<{ data: { id: string; capabilities: string[] }[] }>(
    await server.get('/v1/models?extended=true'),
  )
  const of = (id: string) => data.find((model) => model.id === id)
  for (const pooling of Object.keys(POOLING).filter((name) => name !== 'none')) {
    const capability = pooling === 'rank' ? 'rerank' : 'embeddings'
    expect(of(`bert-${pooling}`)).toMatchObject({
      capabilities: [capability],
      modalities: ['text'],
      output_formats: [],
      sampling_parameters: [],
      max_context_tokens: 256,
      max_output_tokens: 0,
    })
  }
  expect(of('writes')!.capabilities).not.toContain('embeddings')
})

test('requests count in the ledger, by their tokens', async () => {
  const { organisation, key } = await accounts.organisation()
  const post = (path: string, body: object) =>
    fetch(`${server.url}/v1/${path}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
  await (await post('embeddings', { model: 'bert-mean', input: ['the robot', 'x'] })).json()
  await (await post('rerank', { model: 'bert-rank', query: 'the', documents: ['robot'] })).json()
  const read = () =>
    accounts.database.use((queries) =>
      queries.select().from(tables.usage).where(eq(tables.usage.organisationId, organisation)).orderBy(tables.usage.at),
    )
  await expect.poll(async () => (await read()).length).toBe(2)
  expect(await read()).toMatchObject([
    { endpoint: 'embeddings', model: 'bert-mean', promptTokens: 7, completionTokens: 0, status: 200, finish: 'stop' },
    { endpoint: 'rerank', model: 'bert-rank', promptTokens: 4, completionTokens: 0, status: 200, finish: 'stop' },
  ])
})

test('lines of batches are answered as requests are', async () => {
  const batches = new BatchClient(server.url, KEY)
  const embeddings = { custom_id: 'vectors', body: { model: 'bert-mean', input: ['the robot', 'x'] } }
  const long = { custom_id: 'long', body: { model: 'bert-mean', input: ['x', LONG] } }
  const documents = { custom_id: 'scores', body: { model: 'bert-rank', query: 'the', documents: ['robot', 'x'] } }
  const [first, second] = await Promise.all([
    batches.start([embeddings, long], { url: '/v1/embeddings' }),
    batches.start([documents], { url: '/v1/rerank' }),
  ])
  const { output, errors } = await batches.outputOf(await batches.ended(first!.id))
  const own = await embed('bert-mean', ['the robot', 'x'])
  expect(output.map(({ response }) => response!.body)).toEqual([{ ...own, id: expect.stringMatching(/^embd-/) }])
  expect(errors.map(({ response }) => response!.body.error!.param)).toEqual(['input[1]'])
  const rated = await batches.outputOf(await batches.ended(second!.id))
  expect(rated.output[0]!.response!.body).toMatchObject({
    results: (await rerank('bert-rank', 'the', ['robot', 'x'])).results,
  })
})

describe("Ollama's client", () => {
  const model = 'bert-mean'
  let ollama: Ollama
  beforeAll(() => {
    ollama = new Ollama({ host: server.url })
  })

  test('gets the same vectors', async () => {
    const input = ['the robot', 'a , b']
    const { data, usage } = await embed(model, input)
    const reply = await ollama.embed({ model: `${model}:latest`, input })
    expect(reply).toMatchObject({
      prompt_eval_count: usage.prompt_tokens,
      embeddings: data.map(({ embedding }) => embedding),
    })
    expect((await ollama.embed({ model, input: 'the robot' })).embeddings).toEqual([data[0]!.embedding])
    expect((await ollama.embeddings({ model, prompt: 'the robot' })).embedding).toEqual(data[0]!.embedding)
    expect((await ollama.embed({ model, input: '' })).embeddings).toEqual([])
    const { embeddings } = await ollama.embed({ model: 'bert-unsaid', input: 'the robot', dimensions: 16 })
    expect(embeddings[0]).toHaveLength(16)
  })

  test('has longer texts cut unless it says otherwise, and what ends a text is kept', async () => {
    const { embeddings, prompt_eval_count: tokens } = await ollama.embed({ model, input: LONG })
    const x = (await ollama.embed({ model, input: 'x '.repeat(254) })).embeddings
    expect(tokens).toBe(256)
    expect(largestDifference(embeddings[0]!, x[0]!)).toBeLessThan(ROUNDING)
    const whole = ollama.embed({ model, input: ['x', LONG], truncate: false })
    await expect(whole).rejects.toMatchObject({
      status_code: 400,
      error: expect.stringMatching(/length is 256 tokens/),
    })
    expect((await ollama.embeddings({ model, prompt: LONG })).embedding).toEqual(embeddings[0])
  })
})

describe('a large request', () => {
  const largeOf = (word: string) =>
    Array.from({ length: 512 }, (_, i) => ({ content: `${word} ${'the robot '.repeat(100)}`, param: `input[${i}]` }))
  const large = largeOf('a')
  const small = [{ content: 'the robot', param: 'input' }]
  const signal = new AbortController().signal
  let engine: Engine
  beforeAll(async () => {
    engine = await startEngine(await loadCard(join(folder, 'bert-mean', 'card.json')), { maxWaiting: 1 })
  })
  afterAll(() => engine?.close())

  test('delays a small one of another organisation by little, and further ones are refused', async () => {
    const leaving = new AbortController()
    const first = await engine.embed!({ organisation: 'a', inputs: large }, leaving.signal)
    await expect.poll(async () => await engine.stats!()).toMatchObject({ running: 1, waiting: 0 })
    let received = 0
    const reading = (async () => {
      for await (const _ of first.vectors) received++
    })()
    const other = await engine.embed!({ organisation: 'b', inputs: small }, signal)
    expect((await all(other.vectors))[0]!.vector).toHaveLength(WIDTH)
    expect(received).toBeLessThan(large.length)
    const second = await engine.embed!({ organisation: 'a', inputs: largeOf('b') }, leaving.signal)
    await expect(engine.embed!({ organisation: 'a', inputs: small }, signal)).rejects.toMatchObject({
      status: 503,
      code: 'model_overloaded',
      retryAfter: expect.any(Number),
    })
    leaving.abort(new Error('left'))
    for (const vectors of [reading, all(second.vectors)]) await expect(vectors).rejects.toThrow('left')
  })

  test('computes no text again, and tells no other organisation that it is known', async () => {
    const texts = ['the robot', 'a , b', 'the robot .'].map((content) => ({ content, param: 'input' }))
    // Until what the last test left has ended.
    await expect.poll(async () => await engine.stats!()).toMatchObject({ running: 0, waiting: 0 })
    const prefilled = async () => (await engine.stats!()).prefilledTokens
    const before = await prefilled()
    const first = await engine.embed!({ organisation: 'c', inputs: texts.slice(0, 2) }, signal)
    const vectors = await all(first.vectors)
    const computed = await prefilled()
    expect(computed).toBeGreaterThan(before)
    const again = await engine.embed!({ organisation: 'c', inputs: texts.slice(0, 2).toReversed() }, signal)
    expect((await all(again.vectors)).map(({ vector }) => vector)).toEqual(
      vectors.toReversed().map(({ vector }) => vector),
    )
    expect(again.prompts.map(({ cachedTokens, promptTokens }) => promptTokens - cachedTokens)).toEqual([0, 0])
    expect(await prefilled()).toBe(computed)
    // Each of the known and the unknown has its own vector.
    const mixed = await all((await engine.embed!({ organisation: 'c', inputs: texts.toReversed() }, signal)).vectors)
    expect(mixed.map(({ input }) => input).toSorted()).toEqual([0, 1, 2])
    expect(mixed.find(({ input }) => input === 2)!.vector).toEqual(vectors.find(({ input }) => input === 0)!.vector)
    expect(await prefilled()).toBe(computed + again.prompts[1]!.promptTokens + 1)
    await all((await engine.embed!({ organisation: 'd', inputs: texts.slice(0, 2) }, signal)).vectors)
    expect(await prefilled()).toBeGreaterThan(computed + again.prompts[1]!.promptTokens + 1)
  })

  test('has the vectors that its texts have alone, to the last bit', async () => {
    if (engine.numerics?.isInvariant !== true) return
    const texts = Array.from({ length: 40 }, (_, i) => ({
      content: 'the robot , '.repeat(1 + ((7 * i) % 60)),
      param: 'input',
    }))
    const of = async (organisation: string, inputs: typeof texts) =>
      await all((await engine.embed!({ organisation, inputs }, signal)).vectors)
    const together = await of('e', texts)
    for (const { input, vector } of together) {
      const [own] = await of(`alone-${input}`, [texts[input]!])
      expect([input, ...vector]).toEqual([input, ...own!.vector])
    }
  })

  test('ends when its client leaves', async () => {
    const leaving = new AbortController()
    // Not computed before.
    const { vectors } = await engine.embed!({ organisation: 'a', inputs: largeOf('c') }, leaving.signal)
    leaving.abort(new Error('left'))
    await expect(all(vectors)).rejects.toThrow('left')
    await expect.poll(async () => await engine.stats!()).toMatchObject({ running: 0, waiting: 0 })
    const { vectors: others } = await engine.embed!({ organisation: 'a', inputs: small }, signal)
    expect(await all(others)).toHaveLength(1)
  })
})

describe('on OpenAI-compatible servers, as vLLM has them', () => {
  let behind: ScriptedServer
  let front: TestServer
  beforeAll(async () => {
    behind = await ScriptedServer.start()
    behind.models = [{ id: 'm' }]
    const cards = join(folder, 'remote')
    const write = async (id: string, url: string, model: string, fields: object) => {
      const engine = { type: 'openai', urls: [url], model, contextTokens: 256, apiKeyEnv: KEY_ENV }
      const written = { serves: [{ id, ...fields }], engine, embedding: {}, load: 'first_use' }
      await mkdir(join(cards, id), { recursive: true })
      await writeFile(join(cards, id, 'card.json'), JSON.stringify(written))
    }
    process.env[KEY_ENV] = KEY
    await write('front-mean', server.url, 'bert-mean', {})
    await write('front-rank', server.url, 'bert-rank', { capabilities: ['rerank'] })
    await write('scripted', behind.url, 'm', {})
    await write('scripted-rank', behind.url, 'm', { capabilities: ['rerank'] })
    await write('leaving', behind.url, 'm', {})
    const environment = { LOOKOUT_MODEL_CARD: join(cards, 'front-mean', 'card.json'), LOOKOUT_MODELS: cards }
    front = await startTestServer({ startEngine, environment })
  })
  afterAll(async () => {
    delete process.env[KEY_ENV]
    await front?.close()
    await behind?.[Symbol.asyncDispose]()
  })

  test('vectors are those of the servers, in order, with their tokens', async () => {
    const input = Array.from({ length: 70 }, (_, i) => 'the robot '.repeat(1 + (i % 9)))
    const response = await front.post('/v1/embeddings', { model: 'front-mean', input })
    expect(response.status).toBe(200)
    const own = await embed('bert-mean', input)
    const told = await jsonOf<List>(response)
    expect(told.usage).toEqual(own.usage)
    for (const [index, { embedding }] of told.data.entries())
      expect(largestDifference(embedding, own.data[index]!.embedding)).toBeLessThan(ROUNDING)
  })

  test('vectors that a server leaves longer have length 1', async () => {
    behind.scripts = [{ body: { data: [{ index: 0, embedding: [3, 4] }] } }]
    const told = await jsonOf<List>(await front.post('/v1/embeddings', { model: 'scripted', input: ['x'] }))
    expect(told.data.map(({ embedding }) => Array.from(embedding, (value) => value.toFixed(3)))).toEqual([
      ['0.600', '0.800'],
    ])
  })

  test('tokens that a server does not count are estimated', async () => {
    const input = ['x'.repeat(40), 'y'.repeat(10)]
    const data = [0, 1].map((index) => ({ index, embedding: [1] }))
    for (const usage of [null, undefined, { prompt_tokens: 0 }]) {
      behind.scripts = [{ body: { data, usage } }]
      const told = await jsonOf<List>(await front.post('/v1/embeddings', { model: 'scripted', input }))
      expect(told.usage).toEqual({ prompt_tokens: 13, total_tokens: 13 })
    }
    behind.scripts = [{ body: { results: [0, 1].map((index) => ({ index, relevance_score: 0.5 })) } }]
    const documents = ['a'.repeat(20), 'b'.repeat(12)]
    const rated = await front.post('/v1/rerank', { model: 'scripted-rank', query: 'q'.repeat(8), documents })
    expect((await jsonOf<Ranked>(rated)).usage.total_tokens).toBe(5 + 3 + 2 + 2)
    const cut = await front.post('/v1/rerank', { model: 'scripted-rank', query: 'q', documents, max_tokens_per_doc: 9 })
    expect(await errorOf(cut)).toMatchObject({
      param: 'max_tokens_per_doc',
      message: expect.stringMatching(/least 256/),
    })
  })

  test('scores are those of the servers', async () => {
    const documents = ['the robot', 'a , b .', 'x', 'the the']
    const response = await front.post('/v1/rerank', { model: 'front-rank', query: 'robot', documents })
    expect(response.status).toBe(200)
    const { results } = await jsonOf<Ranked>(response)
    const own = await rerank('bert-rank', 'robot', documents)
    expect(results.map(({ index }) => index)).toEqual(own.results.map(({ index }) => index))
    expect(results[0]!.relevance_score).toBeCloseTo(own.results[0]!.relevance_score, 4)
    // Where only one model rates documents, it need not be named.
    const environment = { LOOKOUT_MODELS: join(folder, 'remote', 'front-rank') }
    const only = await startTestServer({ startEngine, environment })
    onTestFinished(() => only.close())
    const unnamed = await only.post('/rerank', { query: 'robot', texts: documents })
    expect((await jsonOf<Ranked['results']>(unnamed)).map(({ index }) => index)).toEqual(
      results.map(({ index }) => index),
    )
  })

  test('an input that a server refuses is named', async () => {
    const response = await front.post('/v1/embeddings', { model: 'front-mean', input: ['x', 'y', LONG] })
    expect(response.status).toBe(400)
    expect(await errorOf(response)).toMatchObject({
      param: 'input[2]',
      message: expect.stringMatching(/do not accept/),
    })
  })

  test('an input that llama-server refuses with a 500 is named, too', async () => {
    behind.scripts = [
      {
        status: 500,
        body: { error: { message: 'input (600 tokens) is too large to process. increase the physical…' } },
      },
    ]
    const response = await front.post('/v1/embeddings', { model: 'scripted', input: ['x'] })
    expect([response.status, (await errorOf(response)).param]).toEqual([400, 'input[0]'])
  })

  test('a server that is lost while it is asked is not waited for', async () => {
    behind.health = 200
    behind.scripts = [{ end: 'silence' }]
    behind.asked.length = 0
    const asking = front.post('/v1/embeddings', { model: 'leaving', input: ['x'] })
    await expect.poll(() => behind.asked.length).toBe(1)
    behind.health = 503
    const response = await asking
    expect(response.status).toBe(503)
    expect(await errorOf(response)).toMatchObject({ message: expect.stringMatching(/No server/) })
    behind.health = 404
  })

  test.each([
    ['has failed', { status: 500, body: { error: { message: 'broken' } } }],
    ['is overloaded', { status: 503, body: { error: { message: 'later' } } }],
    ['wants another key', { status: 403, body: { error: { message: 'no' } } }],
    ['wants to be paid', { status: 402, body: { error: { message: 'no' } } }],
    ['breaks off its answer', { chunks: ['{"data":['], end: 'cut' }],
    ['answers with fewer vectors', { body: { data: [{ index: 1, embedding: [1] }] } }],
  ] as const)('a server that %s is asked twice, and then the client waits', async (_, script) => {
    behind.scripts = [script]
    behind.asked.length = 0
    const response = await front.post('/v1/embeddings', { model: 'scripted', input: ['x', 'y'] })
    expect(response.status).toBe(503)
    expect(Number(response.headers.get('retry-after'))).toBeGreaterThan(0)
    expect(behind.asked).toHaveLength(2)
    expect(behind.asked[0]).toEqual({ model: 'm', input: ['x', 'y'], encoding_format: 'float' })
    behind.scripts = [{ body: { data: [0, 1].map((index) => ({ index, embedding: [1, index] })) } }]
    await expect
      .poll(async () => (await front.post('/v1/embeddings', { model: 'scripted', input: ['x', 'y'] })).status)
      .toBe(200)
  })
})
