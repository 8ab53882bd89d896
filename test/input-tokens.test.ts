import { inArray } from 'drizzle-orm'
import fc from 'fast-check'
import sharp from 'sharp'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { LocalEngine } from '../src/inference/local/host/local-engine.ts'
import * as tables from '../src/storage/schema.ts'
import { TestAccounts } from './support/accounts.ts'
import { type Completion, replyOf } from './support/chat.ts'
import { FakeEngine } from './support/fake-engine.ts'
import { errorOf, jsonOf, startTestServer, type TestServer } from './support/server.ts'
import { makeAudio, makeVideo, tone } from './support/video.ts'

const model = 'service-mk1.5'
const CHAT = '/v1/chat/completions'
const MULTILOOK = `${CHAT}/multilook`
const RATE = 16_000

interface Count {
  readonly object: string
  readonly input_tokens: number
  readonly input_tokens_details: { readonly image_tokens: number; readonly audio_tokens: number }
  readonly estimated: boolean
}

interface MultilookCount {
  readonly object: string
  readonly input_tokens: number
  readonly input_tokens_details: { readonly cached_tokens: number; readonly audio_tokens: number }
  readonly context_tokens: number
  readonly results: readonly {
    readonly prompt_index: number
    readonly input_tokens?: number
    readonly error?: object
  }[]
}

const text = (words: string) => ({ type: 'text', text: words })
const user = (...content: readonly object[]) => ({ role: 'user', content })
const dataUrl = (type: string, bytes: Buffer) => `data:${type};base64,${bytes.toString('base64')}`

async function picture(width: number, height: number): Promise<object> {
  const bytes = await sharp({ create: { width, height, channels: 3, background: 'teal' } })
    .png()
    .toBuffer()
  return { type: 'image_url', image_url: { url: dataUrl('image/png', bytes) } }
}

const colours = (width: number, height: number, count: number) =>
  Array.from({ length: count }, (_, index) => ({ width, height, data: new Uint8Array(width * height * 3).fill(index) }))

const weather = {
  type: 'function',
  function: {
    name: 'get_weather',
    description: 'The weather of a city.',
    parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
  },
}
const schema = { type: 'object', properties: { squares: { type: 'integer' } }, required: ['squares'] }

describe('the shipped model', () => {
  let engine: LocalEngine
  let server: TestServer
  let pictures: readonly object[]
  let video: object
  let frames: object
  let sound: object
  beforeAll(async () => {
    server = await startTestServer({
      startEngine: async (card, options) => {
        engine = await LocalEngine.start(card, options)
        return engine
      },
    })
    pictures = await Promise.all(
      [
        [90, 60],
        [512, 384],
        [700, 40],
        [31, 400],
      ].map(([width, height]) => picture(width!, height!)),
    )
    const bytes = await makeVideo({ format: 'mp4', frames: colours(64, 96, 12), audioSeconds: 2 })
    video = { type: 'video_url', video_url: { url: dataUrl('video/mp4', bytes) } }
    const shown = (pictures as { image_url: object }[]).slice(0, 3)
    const timed = shown.map(({ image_url }, index) => ({ image_url, timestamp_ms: 400 * index }))
    frames = { type: 'video_frames', video_frames: { frames: timed } }
    const samples = Float32Array.from({ length: 2.3 * RATE }, (_, index) => tone(index / RATE))
    const data = (await makeAudio({ format: 'wav', samples, rate: RATE })).toString('base64')
    sound = { type: 'input_audio', input_audio: { data, format: 'wav' } }
  })
  afterAll(() => server?.close())

  const count = async <Body = Count>(path: string, body: object): Promise<Body> => {
    const response = await server.post(`${path}/input_tokens`, { model, max_completion_tokens: 1, ...body })
    expect(response.status, await response.clone().text()).toBe(200)
    return jsonOf<Body>(response)
  }
  const reply = async (body: object): Promise<Completion> =>
    replyOf(await server.post(CHAT, { model, max_completion_tokens: 1, ...body }))

  const chats: Record<string, () => object> = {
    'a text': () => ({ messages: [{ role: 'user', content: 'Hello! ¿Qué tal? 日本 🙂 <|im_end|>' }] }),
    'a picture': () => ({ messages: [user(pictures[1]!, text('What is this?'))] }),
    'several pictures': () => ({ messages: [user(...pictures, text('Which is the widest?'))] }),
    'frames of a video': () => ({ messages: [user(frames, text('What happens?'))] }),
    'a video': () => ({ messages: [user(video, text('What happens?'))] }),
    'a video with its sound': () => ({
      messages: [user(video, text('What is heard?'))],
      vision_config: { enable_audio_in_video: true },
    }),
    sound: () => ({ messages: [user(sound, text('What is said?'))] }),
    'everything at once': () => ({ messages: [user(pictures[0]!, sound, text('and'), video, pictures[3]!)] }),
    tools: () => ({ messages: [user(text('Is it raining?'))], tools: [weather] }),
    'tools that may not be called': () => ({
      messages: [user(text('Is it raining?'))],
      tools: [weather],
      tool_choice: 'none',
    }),
    'the result of a call': () => ({
      messages: [
        user(text('Is it raining in Rome?')),
        {
          role: 'assistant',
          content: null,
          reasoning_content: 'I must look.',
          tool_calls: [{ id: 'a', type: 'function', function: { name: 'get_weather', arguments: '{"city":"Rome"}' } }],
        },
        { role: 'tool', tool_call_id: 'a', content: [text('See:'), pictures[0]!] },
      ],
      tools: [weather],
    }),
    'a schema': () => ({
      messages: [user(pictures[1]!, text('How many squares?'))],
      response_format: { type: 'json_schema', json_schema: { name: 'count', schema } },
    }),
    'a regular expression': () => ({ messages: [user(text('A digit?'))], regex: '[0-9]' }),
    boxes: () => ({ messages: [user(pictures[1]!, text('Detect all.'))], vision_config: { annotation_format: 'box' } }),
    'a hint': () => ({
      messages: [{ role: 'system', content: '<hint>POINT</hint>' }, user(pictures[1]!, text('Stars'))],
    }),
    'a thought': () => ({ messages: [user(text('Think.'))], reasoning_effort: 'high', max_completion_tokens: 200 }),
    'the focus tool': () => ({
      messages: [user(pictures[1]!, text('Look.'))],
      vision_config: { internal_tools: { focus: true } },
    }),
  }

  test.each(Object.keys(chats))('%s: as many tokens as the reply has, and nothing is computed', async (name) => {
    const body = chats[name]!()
    const before = await engine.stats()
    const { object, input_tokens, estimated } = await count(CHAT, body)
    const after = await engine.stats()
    for (const figure of ['prefilledTokens', 'reusedTokens', 'decodedTokens', 'prefixHits', 'prefixMisses'] as const) {
      expect(after[figure], figure).toBe(before[figure])
    }
    expect(object).toBe('response.input_tokens')
    expect(estimated).toBe(false)
    expect(input_tokens).toBeGreaterThan(5)
    expect((await reply(body)).usage!.prompt_tokens).toBe(input_tokens)
    // What the reply has put into the caches changes nothing.
    expect((await count(CHAT, body)).input_tokens).toBe(input_tokens)
  })

  test('any conversation has as many tokens as its reply says', async () => {
    const part = fc.oneof(
      fc.string({ unit: 'grapheme', maxLength: 40 }).map((words) => text(words)),
      fc.constantFrom('picture 0', 'picture 1', 'picture 2', 'picture 3', 'video', 'frames', 'sound'),
    )
    const named = (one: object | string): object => {
      if (typeof one !== 'string') return one
      if (one.startsWith('picture')) return pictures[Number(one.at(-1))]!
      return { video, frames, sound }[one]!
    }
    const turn = fc.oneof(
      {
        weight: 3,
        arbitrary: fc.array(part, { minLength: 1, maxLength: 4 }).map((parts) => user(...parts.map(named))),
      },
      { weight: 1, arbitrary: fc.string({ maxLength: 40 }).map((content) => ({ role: 'assistant', content })) },
    )
    const body = fc.record(
      {
        messages: fc
          .tuple(fc.option(fc.string({ maxLength: 30 })), fc.array(turn, { maxLength: 3 }), fc.string())
          .map(([system, turns, last]) => [
            ...(system === null ? [] : [{ role: 'system', content: system }]),
            ...turns,
            { role: 'user', content: last },
          ]),
        tools: fc.constant([weather]),
        reasoning_effort: fc.constantFrom('none', 'low'),
        vision_config: fc.constantFrom({ annotation_format: 'box' }, { enable_audio_in_video: true }, null),
        max_completion_tokens: fc.constantFrom(0, 1, 2),
        temperature: fc.constant(1),
      },
      { requiredKeys: ['messages'] },
    )
    await fc.assert(
      fc.asyncProperty(body, async (body) => {
        const { input_tokens } = await count(CHAT, body)
        expect((await reply(body)).usage!.prompt_tokens).toBe(input_tokens)
      }),
      { numRuns: 25 },
    )
  })

  test('says how many of the tokens are those of pictures and of sound', async () => {
    const { input_tokens, input_tokens_details: details } = await count(CHAT, {
      messages: [user(pictures[1]!, sound, text('What is this?'))],
    })
    // 512 x 384 is not resized: 16 x 12 tokens.
    expect(details.image_tokens).toBe(16 * 12)
    const { usage } = (await reply({ messages: [user(pictures[1]!, sound, text('What is this?'))] })) as Completion & {
      usage: { prompt_tokens_details: { audio_tokens: number } }
    }
    expect(details.audio_tokens).toBe(usage.prompt_tokens_details.audio_tokens)
    expect(details.audio_tokens).toBeGreaterThan(10)
    expect(input_tokens).toBeGreaterThan(details.image_tokens + details.audio_tokens)
  })

  test.each<[string, string, () => object]>([
    ['an unknown model', CHAT, () => ({ model: 'none', messages: [user(text('a'))] })],
    ['a field that is out of range', CHAT, () => ({ messages: [user(text('a'))], temperature: 3 })],
    ['no messages', CHAT, () => ({ messages: [] })],
    ['several replies', CHAT, () => ({ messages: [user(text('a'))], n: 2 })],
    ['broken image bytes', CHAT, () => ({ messages: [user(broken)] })],
    ['an address of a private host', CHAT, () => ({ messages: [user(privately)] })],
    ['tools with a regular expression', CHAT, () => ({ messages: [user(text('a'))], tools: [weather], regex: 'a' })],
    ['an invalid pattern', CHAT, () => ({ messages: [user(text('a'))], regex: '(' })],
    ['a schema that no reply can satisfy', CHAT, () => ({ messages: [user(text('a'))], response_format: refused })],
    ['a prompt that is too long', CHAT, () => ({ messages: [user(text('a b '.repeat(40_000)))] })],
    ['a longer reply than there is room for', CHAT, () => ({ messages: [long], max_completion_tokens: 8192 })],
    ['a result of no call', CHAT, () => ({ messages: [{ role: 'tool', tool_call_id: 'x', content: 'a' }] })],
    ['prompts beyond the limit', MULTILOOK, () => ({ context: [], prompts: Array.from({ length: 17 }, () => 'a') })],
    [
      'a context with tools',
      MULTILOOK,
      () => ({ context: [{ role: 'tool', tool_call_id: 'x', content: 'a' }], prompts: ['a'] }),
    ],
    ['no prompt that could be answered', MULTILOOK, () => ({ context: [], prompts: [{ content: [broken] }] })],
  ])('%s is rejected as it is without counting', async (_, path, body) => {
    const [counted, answered] = await Promise.all(
      [`${path}/input_tokens`, path].map((url) => server.post(url, { model, ...body() })),
    )
    expect(counted!.status).toBeGreaterThanOrEqual(400)
    expect(counted!.status).toBe(answered!.status)
    expect(await errorOf(counted!)).toEqual(await errorOf(answered!))
  })

  const broken = { type: 'image_url', image_url: { url: 'data:image/png;base64,aGVsbG8=' } }
  const privately = { type: 'image_url', image_url: { url: 'http://127.0.0.1:9/a.png' } }
  const refused = {
    type: 'json_schema',
    json_schema: { name: 'a', schema: { type: 'array', items: { type: 'string' }, minItems: 3, maxItems: 2 } },
  }
  const long = user(text('a b '.repeat(14_000)))

  test('prompts over a shared context have as many tokens as their answer says', async () => {
    const body = {
      context: [{ role: 'system', content: 'Be brief.' }, user(pictures[1]!)],
      prompts: ['What is this?', { content: [pictures[0]!, text('And this?')] }, { content: [broken] }, 'Why?'],
    }
    const counted = await count<MultilookCount>(MULTILOOK, body)
    const response = await server.post(MULTILOOK, { model, max_completion_tokens: 1, ...body })
    const { usage, results } = await jsonOf<{
      usage: { prompt_tokens: number; prompt_tokens_details: object }
      results: { error?: object }[]
    }>(response)
    expect(counted.object).toBe('chat.completion.multilook.input_tokens')
    expect(counted.input_tokens).toBe(usage.prompt_tokens)
    expect(counted.input_tokens_details).toEqual(usage.prompt_tokens_details)
    expect(counted.input_tokens_details.cached_tokens).toBe(2 * counted.context_tokens)
    expect(counted.results.map(({ prompt_index }) => prompt_index)).toEqual([0, 1, 2, 3])
    expect(counted.results[2]!.error).toEqual(results[2]!.error)
    const each = counted.results.map(({ input_tokens }) => input_tokens ?? 0)
    expect(each.reduce((sum, tokens) => sum + tokens, 0)).toBe(counted.input_tokens)
    for (const index of [0, 1, 3]) expect(each[index]).toBeGreaterThan(counted.context_tokens)
  })
})

describe('a count', () => {
  const hello = { model, messages: [{ role: 'user', content: 'Hi' }] }
  let accounts: TestAccounts
  let engine: FakeEngine
  let server: TestServer
  beforeAll(async () => {
    accounts = await TestAccounts.open()
    engine = new FakeEngine()
    server = await startTestServer({ engine, environment: { LOOKOUT_RATE_LIMITS: 'chat=5,multilook=2' } })
  })
  afterAll(async () => {
    await server?.close()
    await accounts?.close()
  })
  const post = (key: string, path: string, body: object) =>
    fetch(server.url + path, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })

  test('needs a key, of the scope that chat needs', async () => {
    expect((await post('lk-none', `${CHAT}/input_tokens`, hello)).status).toBe(401)
    const { organisation } = await accounts.organisation()
    const { key } = await accounts.accounts.createKey({ organisation, scopes: ['files'] })
    const response = await post(key, `${CHAT}/input_tokens`, hello)
    expect(response.status).toBe(403)
    expect(await errorOf(response)).toMatchObject({ code: 'insufficient_scope' })
  })

  test('counts as a request, and uses no tokens', async () => {
    const { key, organisation } = await accounts.organisation()
    for (let left = 4; left > 0; left--) {
      const response = await post(key, `${CHAT}/input_tokens`, hello)
      expect(response.status).toBe(200)
      expect(response.headers.get('x-ratelimit-remaining-requests')).toBe(String(left))
    }
    expect(engine.works).toEqual([])
    expect((await post(key, CHAT, hello)).status).toBe(200)
    const limited = await post(key, `${CHAT}/input_tokens`, hello)
    expect(limited.status).toBe(429)
    expect(await errorOf(limited)).toMatchObject({
      code: 'rate_limit_exceeded',
      message: expect.stringContaining('(chat)'),
    })
    const many = { model, context: [], prompts: ['Hi'] }
    expect((await post(key, `${MULTILOOK}/input_tokens`, many)).headers.get('x-ratelimit-limit-requests')).toBe('2')

    const broke = await accounts.organisation({ monthlyCredits: 0 })
    expect((await post(broke.key, CHAT, hello)).status).toBe(429)
    expect((await post(broke.key, `${CHAT}/input_tokens`, hello)).status).toBe(200)
    const last = await accounts.organisation()
    expect((await post(last.key, CHAT, hello)).status).toBe(200)
    // Rows are written in order: once the last one is there, so are all others.
    const { usage } = tables
    const all = [organisation, broke.organisation, last.organisation]
    const rows = () =>
      accounts.database.use((queries) =>
        queries
          .select({ organisation: usage.organisationId, endpoint: usage.endpoint })
          .from(usage)
          .where(inArray(usage.organisationId, all))
          .orderBy(usage.at),
      )
    await expect.poll(async () => (await rows()).some((row) => row.organisation === last.organisation)).toBe(true)
    expect(await rows()).toEqual([
      { organisation, endpoint: 'chat' },
      { organisation: last.organisation, endpoint: 'chat' },
    ])
  })
})
