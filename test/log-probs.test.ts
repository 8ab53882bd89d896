import { readFile } from 'node:fs/promises'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { type Chunk, chunksOf, messageOf, replyOf } from './support/chat.ts'
import { errorOf, jsonOf, startTestServer, type TestServer } from './support/server.ts'
import { startShippedServer } from './support/shipped-model.ts'

interface Token {
  readonly token: string
  readonly logprob: number
  readonly bytes: readonly number[]
}
type Rated = Token & { readonly top_logprobs: readonly Token[] }
type Places = readonly { readonly mention: string | null; readonly confidence: number }[]
type LogProbs = { readonly content: readonly Rated[]; readonly refusal: null; readonly annotations?: Places } | null
type Choice = { readonly logprobs?: LogProbs }

const MODEL = 'service-mk1.5'
const user = { role: 'user', content: 'How many?' }
const PICTURE =
  'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='
const tools = [{ type: 'function', function: { name: 'count', parameters: { type: 'object' } } }]

const logProbsOf = ({ choices }: { readonly choices: readonly unknown[] }) => (choices[0] as Choice).logprobs
const tokensOf = (rated: LogProbs | undefined) => rated?.content.map(({ token }) => token)

describe('with any words of the engine', () => {
  let server: TestServer
  beforeAll(async () => {
    server = await startTestServer()
  })
  afterAll(() => server?.close())
  beforeEach(() => {
    server.engine.works.length = 0
    server.engine.script = { texts: ['Two', ' lamps', '.'] }
  })
  const post = (fields: object) =>
    server.post('/v1/chat/completions', { model: MODEL, messages: [user], logprobs: true, ...fields })
  const asked = () => server.engine.works.at(-1)!.branches[0]!.topLogProbs

  /** The tokens of the reply, and those of each chunk of the same reply as a stream. */
  async function both(fields: object) {
    const reply = await replyOf(await post(fields))
    const chunks = await chunksOf(await post({ ...fields, stream: true }))
    const streamed = chunks.map((chunk) => tokensOf(logProbsOf(chunk)))
    const message = reply.choices[0]!.message
    // Calls have ids of their own in each reply.
    expect(messageOf(chunks).content).toBe(message.content)
    expect(streamed.flatMap((tokens) => tokens ?? [])).toEqual(tokensOf(logProbsOf(reply)))
    return { message, tokens: tokensOf(logProbsOf(reply)), streamed, chunks }
  }

  test('have the shape of OpenAI', async () => {
    const two = { token: 'Two', logprob: Math.log(1 / 3), bytes: [84, 119, 111] }
    const other = { token: 'other', logprob: Math.log(2 / 3), bytes: [111, 116, 104, 101, 114] }
    const reply = await replyOf(await post({ top_logprobs: 2 }))
    expect(reply.choices[0]).toEqual({
      index: 0,
      message: { role: 'assistant', content: 'Two lamps.' },
      logprobs: {
        content: [{ ...two, top_logprobs: [other, two] }, expect.anything(), expect.anything()],
        refusal: null,
      },
      finish_reason: 'stop',
    })
    expect(asked()).toBe(2)
    const chunks = await chunksOf(await post({ top_logprobs: 1, stream: true }))
    expect(chunks.map(logProbsOf)).toEqual([
      null,
      { content: [{ ...two, top_logprobs: [other] }], refusal: null },
      { content: [expect.objectContaining({ token: ' lamps' })], refusal: null },
      { content: [expect.objectContaining({ token: '.' })], refusal: null },
      null,
    ])
  })

  test.each<[string, object, number | undefined]>([
    ['top_logprobs', { top_logprobs: 20 }, 20],
    ['no top_logprobs', {}, 0],
    ['null', { top_logprobs: null }, 0],
    ['false', { logprobs: false }, undefined],
    ['nothing', { logprobs: null }, undefined],
    ['what OpenAI rejects', { top_logprobs: 21 }, 0],
    ['top_logprobs alone', { logprobs: undefined, top_logprobs: 3 }, undefined],
    ['something else', { logprobs: 1, top_logprobs: 3 }, undefined],
  ])('with the contract, %s', async (_, fields, expected) => {
    const reply = await replyOf(await post(fields))
    expect(asked()).toBe(expected)
    expect('logprobs' in reply.choices[0]!).toBe(expected !== undefined)
  })

  test('a thought has none', async () => {
    server.engine.script = { texts: ['Hm', '.\n</th', 'ink>', '\n', '\nTwo', '.'] }
    const { message, tokens, streamed } = await both({ reasoning_effort: 'low' })
    expect(message).toMatchObject({ content: 'Two.', reasoning_content: 'Hm.' })
    // The token that ends the thought holds the beginning of the reply.
    expect(tokens).toEqual(['\nTwo', '.'])
    expect(streamed.filter((tokens) => tokens !== undefined)).toEqual([['\nTwo'], ['.']])
  })

  test('a thought that was not asked for has none either, nor one before a structure', async () => {
    server.engine.script = { texts: ['\n', '<think>', 'Hm.', '</think>', 'Two'] }
    expect((await both({})).tokens).toEqual(['Two'])
    server.engine.script = { texts: ['\n', 'Two'] }
    expect((await both({})).tokens).toEqual(['\n', 'Two'])
    server.engine.script = { texts: ['Hm.\n</think>', '\n\n', 'T', 'wo'] }
    expect((await both({ regex: 'Two', reasoning_effort: 'low' })).tokens).toEqual(['T', 'wo'])
    server.engine.script = { texts: ['Hm. It'], reason: 'length' }
    expect((await both({ reasoning_effort: 'low' })).tokens).toEqual([])
  })

  test('a token that the events join is told apart', async () => {
    server.engine.script = { texts: ['Hm.\n</think>\n\nTwo.'] }
    const { tokens } = await both({ reasoning_effort: 'low' })
    expect(tokens).toEqual(['Hm.\n</think>\n\nTwo.'])
  })

  test('those of a call go with its chunks, and with the last one of all', async () => {
    const call = [
      '\n',
      '<tool_call>',
      '\n{"name": "count", "arguments": ',
      '{"what": ',
      '"lamps"}',
      '}\n',
      '</tool_call>',
    ]
    server.engine.script = { texts: ['Well.', ...call] }
    const { message, tokens, streamed } = await both({ tools })
    expect(message).toMatchObject({ content: 'Well.', tool_calls: [{ function: { name: 'count' } }] })
    expect(tokens).toEqual(['Well.', ...call])
    expect(streamed.filter((tokens) => tokens !== undefined)).toEqual([
      ['Well.'],
      ['\n', '<tool_call>', '\n{"name": "count", "arguments": ', '{"what": '],
      ['"lamps"}'],
      ['}\n', '</tool_call>'],
    ])
  })

  test('annotations are told as the model has written them', async () => {
    const texts = ['A ', '{"bbox_2d": [1, 2, ', '3, 4], "label": "lamp"}', '.']
    server.engine.script = { texts }
    const content = [
      { type: 'image_url', image_url: { url: PICTURE } },
      { type: 'text', text: 'Where?' },
    ]
    const { tokens } = await both({
      messages: [{ role: 'user', content }],
      vision_config: { annotation_format: 'box' },
    })
    expect(tokens).toEqual(texts)
  })

  test('annotations have the mass near their coordinates, with the most alternatives', async () => {
    const cup = '<point_box mention="cup"> (500,600) (700,800) </point_box>'
    const places = ['A ', '<point_box mention="lamp"> (', '1', '00,200) (300,400) </point_box>', ' and ', cup, '.']
    server.engine.script = {
      texts: places,
      // One of four coordinates could have been elsewhere. What else the prose could have said is not counted.
      alternatives: (text) =>
        text === '1' ? [{ text: '5', mass: 0.2 }] : text === 'A ' ? [{ text: 'B', mass: 0.9 }] : [],
    }
    const image = { type: 'image_url', image_url: { url: PICTURE } }
    const where = { type: 'text', text: 'Where?' }
    const about = (...content: object[]) => ({ messages: [{ role: 'user', content: [...content, where] }] })
    const fields = { ...about(image), vision_config: { annotation_format: 'box' }, top_logprobs: 20 }
    const expected = [
      { mention: 'lamp', confidence: expect.closeTo(0.95, 9) },
      { mention: 'cup', confidence: expect.closeTo(1, 9) },
    ]
    expect(logProbsOf(await replyOf(await post(fields)))!.annotations).toEqual(expected)
    const chunks = (await chunksOf(await post({ ...fields, stream: true }))).map(logProbsOf)
    expect(chunks.pop()).toEqual({ content: [], refusal: null, annotations: expected })
    for (const chunk of chunks) expect(chunk ?? {}).not.toHaveProperty('annotations')
    for (const other of [{ top_logprobs: 19 }, { vision_config: {} }, { tools }, about(image, image)]) {
      expect(logProbsOf(await replyOf(await post({ ...fields, ...other })))).not.toHaveProperty('annotations')
    }
    const plain = await replyOf(await post({ ...fields, logprobs: false, top_logprobs: undefined }))
    expect(plain.choices[0]).not.toHaveProperty('logprobs')

    const { script } = server.engine
    const texts = [...places.slice(0, -2), cup.slice(0, -1)]
    server.engine.script = { ...script, texts, reason: 'length' }
    expect(logProbsOf(await replyOf(await post(fields)))!.annotations).toEqual(expected.slice(0, 1))
  })
})

describe('multilook', () => {
  const PATH = '/v1/chat/completions/multilook'
  let server: TestServer
  beforeAll(async () => {
    server = await startTestServer()
  })
  afterAll(() => server?.close())

  const body = { model: MODEL, context: [user], prompts: ['a', 'b'], n: 2, temperature: 1, reasoning_effort: 'low' }
  interface Completion {
    readonly logprobs?: LogProbs
  }
  interface Answer {
    readonly results: readonly { readonly completions: readonly Completion[] }[]
  }

  test('each completion has its own', async () => {
    server.engine.script = {
      branch: (_, index) => ({
        texts: (completion) => ['Hm.\n</think>', '\n\n', `${index}`, `${completion}`],
      }),
    }
    const asked = { ...body, logprobs: true, top_logprobs: 1 }
    const { results } = await jsonOf<Answer>(await server.post(PATH, asked))
    const tokens = results.map(({ completions }) => completions.map(({ logprobs }) => tokensOf(logprobs)))
    expect(tokens).toEqual([0, 1].map((prompt) => [0, 1].map((completion) => [`${prompt}`, `${completion}`])))

    const stream = await server.post(PATH, asked, { accept: 'text/event-stream' })
    const events = (await stream.text()).split('\n\n').filter((line) => line.startsWith('data: {'))
    const deltas = events.map((line) => JSON.parse(line.slice('data: '.length))).filter((event) => 'delta' in event)
    const first = deltas.filter((event) => event.prompt_index === 1 && event.index === 0)
    expect(first.map(({ delta, logprobs }) => [delta.content, tokensOf(logprobs)])).toEqual([
      [undefined, undefined],
      ['1', ['1']],
      ['0', ['0']],
    ])

    server.engine.works.length = 0
    const without = await jsonOf<Answer>(await server.post(PATH, { ...body, logprobs: 'no', top_logprobs: 99 }))
    expect(without.results.flatMap(({ completions }) => completions).some((one) => 'logprobs' in one)).toBe(false)
    expect(server.engine.works[0]!.branches[0]).not.toHaveProperty('topLogProbs')
  })
})

describe('with compatibility: openai', () => {
  let server: TestServer
  beforeAll(async () => {
    server = await startTestServer({ environment: { LOOKOUT_COMPATIBILITY: 'openai' } })
  })
  afterAll(() => server?.close())
  const post = (fields: object) => server.post('/v1/chat/completions', { model: MODEL, messages: [user], ...fields })

  test.each([
    ['logprobs', { logprobs: 'yes' }],
    ['top_logprobs', { logprobs: true, top_logprobs: 21 }],
    ['top_logprobs', { logprobs: true, top_logprobs: -1 }],
    ['top_logprobs', { logprobs: true, top_logprobs: 1.5 }],
    ['top_logprobs', { top_logprobs: 2 }],
    ['top_logprobs', { logprobs: false, top_logprobs: 0 }],
  ])('what OpenAI rejects is rejected: %s', async (param, fields) => {
    const response = await post(fields)
    expect(response.status).toBe(400)
    expect(await errorOf(response)).toMatchObject({ type: 'invalid_request_error', param })
  })

  test('a reply has null where they are not asked for', async () => {
    const reply = await replyOf(await post({ logprobs: null, top_logprobs: null }))
    expect(logProbsOf(reply)).toBeNull()
    expect(logProbsOf(await replyOf(await post({ logprobs: true })))).toMatchObject({ refusal: null })
  })
})

describe('with the built-in model', () => {
  let server: TestServer
  beforeAll(async () => {
    server = await startShippedServer()
  })
  afterAll(() => server?.close())
  const post = (fields: object) =>
    server.post('/v1/chat/completions', { model: MODEL, messages: [user], max_completion_tokens: 40, ...fields })
  const logProbs = { logprobs: true, top_logprobs: 20 }

  test('the bytes of all tokens are the content, and the reply is the same as without', async () => {
    const plain = await replyOf(await post({}))
    const { content } = plain.choices[0]!.message
    const rated = await replyOf(await post(logProbs))
    const chunks: Chunk[] = await chunksOf(await post({ ...logProbs, stream: true }))
    expect(rated.choices[0]).toEqual({ ...plain.choices[0], logprobs: expect.anything() })
    expect(messageOf(chunks).content).toBe(content)
    for (const tokens of [logProbsOf(rated)!.content, chunks.flatMap((chunk) => logProbsOf(chunk)?.content ?? [])]) {
      expect(Buffer.from(tokens.flatMap(({ bytes }) => bytes)).toString()).toBe(content)
      for (const { token, logprob, top_logprobs: top } of tokens) {
        expect(top[0]).toMatchObject({ token, logprob })
        expect(top.map((other) => other.logprob)).toEqual(top.map((other) => other.logprob).toSorted((a, b) => b - a))
        expect(top.reduce((sum, other) => sum + Math.exp(other.logprob), 0)).toBeLessThanOrEqual(1 + 1e-9)
      }
    }
  })

  test('every annotation has a confidence', async () => {
    const url = `data:image/png;base64,${(await readFile('docs/pictures/shapes.png')).toString('base64')}`
    const content = [
      { type: 'image_url', image_url: { url } },
      { type: 'text', text: 'Where are the star and the heart?' },
    ]
    const fields = { messages: [{ role: 'user', content }], vision_config: { annotation_format: 'box' }, ...logProbs }
    const reply = await replyOf(await post({ ...fields, max_completion_tokens: 200 }))
    const mentions = [...reply.choices[0]!.message.content!.matchAll(/<point_box mention="([^"]*)"/g)]
    const { annotations } = logProbsOf(reply)!
    expect(annotations!.map(({ mention }) => mention)).toEqual(mentions.map(([, mention]) => mention))
    for (const { confidence } of annotations!) {
      expect(confidence).toBeGreaterThan(0)
      expect(confidence).toBeLessThanOrEqual(1)
    }
  })

  test('of two choices, the probabilities are 1 together', async () => {
    const reply = await replyOf(await post({ ...logProbs, regex: 'yes|no' }))
    const [first] = logProbsOf(reply)!.content
    expect(first!.top_logprobs.reduce((sum, { logprob }) => sum + Math.exp(logprob), 0)).toBeCloseTo(1, 9)
    for (const { token } of first!.top_logprobs) expect(['yes', 'no'].some((word) => word.startsWith(token))).toBe(true)
  })
})
