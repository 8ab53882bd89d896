import { readFileSync } from 'node:fs'
import OpenAI, { toFile } from 'openai'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { startEngine } from '../src/inference/engines/engines.ts'
import type { ModelCard } from '../src/models/card.ts'
import { changedCard, type TemporaryCard } from './support/changed-card.ts'
import { promptText } from './support/chat.ts'
import { type HearingCard, hearingCard } from './support/hearing-card.ts'
import { errorOf, jsonOf, KEY, startTestServer, type TestServer } from './support/server.ts'
import { makeAudio, tone } from './support/video.ts'

const URL = '/v1/audio/transcriptions'
const MODEL = 'service-mk1.5'
const RATE = 16_000
/** Two seconds. */
const SAMPLES = Float32Array.from({ length: 2 * RATE }, (_, at) => tone(at / RATE))
const AUDIO = { tokensPerSecond: 12.5, windowSeconds: 1, maxTokens: 1024 }

let sound: Uint8Array<ArrayBuffer>
let card: TemporaryCard
let server: TestServer
let client: OpenAI

beforeAll(async () => {
  sound = new Uint8Array(await makeAudio({ format: 'wav', samples: SAMPLES, rate: RATE }))
  card = await changedCard((card) => ({
    ...card,
    audio: AUDIO,
    serves: [
      { ...card.serves[0]!, modalities: ['text', 'image', 'video', 'audio'] },
      { ...card.serves[0]!, id: 'deaf', aliases: [], modalities: ['text', 'image'] },
    ],
  }))
  server = await startTestServer({ environment: { LOOKOUT_MODEL_CARD: card.path } })
  client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: KEY, maxRetries: 0 })
})
afterAll(async () => {
  await server?.close()
  await card?.remove()
})
beforeEach(() => {
  server.engine.works.length = 0
  server.engine.script = { texts: ['Mary had', ' a lamb.'] }
})

/** The card of a family that sees nothing. */
function hearingOnly({ video: _, ...card }: ModelCard, family: string): object {
  const hears = { modalities: ['text', 'audio'], outputFormats: ['text'], capabilities: [], reasoning: false }
  return { ...card, audio: AUDIO, family, serves: [{ ...card.serves[0]!, ...hears }] }
}

const file = () => toFile(sound, 'speech.wav')
const asked = () => promptText(server.engine)

function post(
  fields: Readonly<Record<string, string>>,
  bytes: Uint8Array<ArrayBuffer> | null = sound,
  url = URL,
): Promise<Response> {
  const form = new FormData()
  for (const [name, value] of Object.entries({ model: MODEL, ...fields })) form.set(name, value)
  if (bytes !== null) form.set('file', new File([bytes], 'speech.wav'))
  return fetch(server.url + url, { method: 'POST', headers: { authorization: `Bearer ${KEY}` }, body: form })
}

describe('OpenAI’s client gets', () => {
  test('a transcript', async () => {
    const { text, usage } = await client.audio.transcriptions.create({ model: MODEL, file: await file() })
    expect(text).toBe('Mary had a lamb.')
    expect(usage).toMatchObject({ type: 'tokens', input_token_details: { audio_tokens: expect.any(Number) } })
    expect(asked()).toContain('Transcribe the speech')
  })

  test('how long the recording is, as LiteLLM asks', async () => {
    const asks = { model: MODEL, response_format: 'verbose_json' } as const
    const verbose = { task: 'transcribe', duration: 2, text: 'Mary had a lamb.' }
    const reply = await client.audio.transcriptions.create({ ...asks, file: await file() })
    expect(reply).toMatchObject({ ...verbose, language: 'und' })
    expect(reply.usage).toMatchObject({ type: 'duration', seconds: 2, output_tokens: expect.any(Number) })
    const again = await client.audio.transcriptions.create({ ...asks, file: await file(), language: 'de' })
    expect(again).toMatchObject({ ...verbose, language: 'de' })
  })

  test('a translation, but not of a model that has only learnt to transcribe', async () => {
    const asks = { model: MODEL, file: await file() }
    await expect(client.audio.translations.create(asks)).rejects.toMatchObject({ status: 400, param: 'model' })
    const translating = await changedCard((card) => hearingOnly(card, 'ultravox'))
    const other = await startTestServer({ environment: { LOOKOUT_MODEL_CARD: translating.path } })
    try {
      const openai = new OpenAI({ baseURL: `${other.url}/v1`, apiKey: KEY, maxRetries: 0 })
      other.engine.script = { texts: ['Mary had', ' a lamb.'] }
      expect((await openai.audio.translations.create(asks)).text).toBe('Mary had a lamb.')
      expect(promptText(other.engine)).toContain('Translate the speech in this recording into English')
    } finally {
      await other.close()
      await translating.remove()
    }
  })

  test('the same as text', async () => {
    const response_format = 'text'
    const text = await client.audio.transcriptions.create({ model: MODEL, file: await file(), response_format })
    expect(text).toBe('Mary had a lamb.\n')
  })

  test('the same while it is written', async () => {
    const stream = await client.audio.transcriptions.create({ model: MODEL, file: await file(), stream: true })
    const events = []
    for await (const event of stream) events.push(event)
    expect(events).toEqual([
      { type: 'transcript.text.delta', delta: 'Mary had' },
      { type: 'transcript.text.delta', delta: ' a lamb.' },
      { type: 'transcript.text.done', text: 'Mary had a lamb.', usage: expect.objectContaining({ type: 'tokens' }) },
    ])
  })

  test('the same from forms of PHP, where true is 1 and false is nothing', async () => {
    expect((await jsonOf(await post({ stream: '', diarize: '' }))).text).toBe('Mary had a lamb.')
    expect((await post({ stream: '1' })).headers.get('content-type')).toContain('text/event-stream')
    expect((await post({ diarize: '1' })).status).toBe(400)
  })
})

test('the model is told the language and the context', async () => {
  const fields = { language: 'de', prompt: 'Frau Szczepański' }
  await client.audio.transcriptions.create({ model: MODEL, file: await file(), temperature: 0.5, ...fields })
  expect(asked()).toContain('It is in German. Context: Frau Szczepański')
  expect(server.engine.works.at(-1)!.branches[0]!.sampling.temperature).toBe(0.5)
})

test.each([
  ['zh-yue', 'Cantonese'],
  ['zh-min-nan', 'Min Nan Chinese'],
  ['zh-cmn-Hans', 'Simplified Chinese'],
  ['sgn-ase', 'American Sign Language'],
  ['pt-br', 'Brazilian Portuguese'],
  ['de-x-radio', 'German'],
  ['en-US-u-hc-h12', 'American English'],
])('the language may be any tag: %s', async (language, name) => {
  const reply = await jsonOf(await post({ language, response_format: 'verbose_json' }))
  expect(reply.language).toBe(language)
  expect(asked()).toContain(`It is in ${name}.`)
})

test('a family’s own prompt takes the place of the usual one, and its mark is no transcript', async () => {
  const own = await changedCard((card) => hearingOnly(card, 'qwen3-asr'))
  const other = await startTestServer({ environment: { LOOKOUT_MODEL_CARD: own.path } })
  try {
    const openai = new OpenAI({ baseURL: `${other.url}/v1`, apiKey: KEY, maxRetries: 0 })
    other.engine.script = { texts: ['language Eng', 'lish<asr_', 'text>Mary', ' had'] }
    const whole = { model: MODEL, file: await file(), prompt: 'Mary' }
    expect((await openai.audio.transcriptions.create(whole)).text).toBe('Mary had')
    expect(promptText(other.engine)).not.toContain('Transcribe')
    expect(promptText(other.engine)).toContain('Mary')
    const pieces = []
    for await (const event of await openai.audio.transcriptions.create({ ...whole, stream: true })) {
      if (event.type === 'transcript.text.delta') pieces.push(event.delta)
    }
    expect(pieces).toEqual(['Mary', ' had'])
    await expect(openai.audio.translations.create(whole)).rejects.toMatchObject({ status: 400, param: 'model' })
    other.engine.script = { texts: ['Nothing', ' else'] }
    expect((await openai.audio.transcriptions.create(whole)).text).toBe('Nothing else')
  } finally {
    await other.close()
    await own.remove()
  }
})

describe('an error names', () => {
  test.each([
    ['model', { model: 'deaf' }, /does not take audio/],
    ['response_format', { response_format: 'srt' }, /no model here says when words were spoken/],
    ['timestamp_granularities[]', { 'timestamp_granularities[]': 'word' }, /not supported/],
    ['temperature', { temperature: 'hot' }, /number/],
    ['stream', { stream: 'maybe' }, /boolean/],
    ['language', { language: 'German please' }, /a code such as 'en'/],
  ])('%s', async (param, fields, message) => {
    const response = await post(fields)
    expect(response.status).toBe(400)
    expect(await errorOf(response)).toMatchObject({ param, message: expect.stringMatching(message) })
  })

  test.each(['en-12', 'en-abc', 'abcd', 'zh-min', 'de-1996-1996', 'de-a-bb-a-bb'])(
    'language, where %s is none',
    async (language) => {
      for (const url of [URL, '/v1/audio/translations']) {
        const response = await post({ language }, sound, url)
        expect(response.status).toBe(400)
        const message = expect.stringMatching("a code such as 'en'")
        expect(await errorOf(response)).toMatchObject({ param: 'language', message })
      }
    },
  )

  test.each([
    ['none', null],
    ['an empty one', new Uint8Array(0)],
    ['a text', new Uint8Array(Buffer.from('no sound'))],
    ['a picture', new Uint8Array(readFileSync('docs/pictures/shapes.png'))],
  ])('a file that is %s', async (_name, bytes) => {
    const response = await post({}, bytes)
    expect(response.status).toBe(400)
    expect((await errorOf(response)).param).toBe('file')
  })

  test('a file beside an address', async () => {
    const response = await post({ file_url: 'data:audio/wav;base64,aGk=' })
    expect([response.status, (await errorOf(response)).param]).toEqual([400, 'file'])
  })

  test('no form', async () => {
    const response = await server.post(URL, { model: MODEL })
    expect(response.status).toBe(415)
  })
})

test('in the shape of Mistral’s clients, the recording may be an address or an upload', async () => {
  const send = (fields: object) =>
    fetch(server.url + URL, {
      method: 'POST',
      headers: { authorization: `Bearer ${KEY}` },
      body: new URLSearchParams({ model: MODEL, stream: 'false', diarize: 'false', ...fields }),
    })
  const { id } = await client.files.create({ file: await file(), purpose: 'audio' as 'vision' })
  for (const source of [
    { file_url: `data:audio/wav;base64,${Buffer.from(sound).toString('base64')}` },
    { file_id: id },
  ]) {
    const reply = await jsonOf(await send(source))
    expect(reply).toMatchObject({ model: MODEL, text: 'Mary had a lamb.', language: null })
    expect(reply.usage).toMatchObject({ completion_tokens: 2, prompt_tokens: expect.any(Number) })
  }
  await client.files.delete(id)
  for (const [param, fields] of Object.entries({
    file_url: { file_url: 'data:audio/wav;base64,aGk=' },
    file_id: { file_id: id },
    file: {},
    diarize: { file_id: id, diarize: 'true' },
    timestamp_granularities: { file_id: id, timestamp_granularities: 'segment' },
  })) {
    const response = await send(fields)
    expect([response.status, (await errorOf(response)).param]).toEqual([400, param])
  }
})

test('a model that hears gets the sound', async () => {
  const hearing: HearingCard = await hearingCard()
  const real = await startTestServer({ startEngine, environment: { LOOKOUT_MODEL_CARD: hearing.path } })
  try {
    const openai = new OpenAI({ baseURL: `${real.url}/v1`, apiKey: KEY, maxRetries: 0 })
    const { usage } = await openai.audio.transcriptions.create({ model: MODEL, file: await file() })
    expect(usage).toMatchObject({ input_token_details: { audio_tokens: 25 } })
    // The formats that its documentation names, as phones and browsers record them.
    for (const [format, name] of [
      ['mp3', 'a.mp3'],
      ['ipod', 'a.m4a'],
      ['mp4', 'a.mp4'],
      ['ogg', 'a.ogg'],
      ['webm', 'a.webm'],
      ['flac', 'a.flac'],
    ] as const) {
      const recording = await toFile(
        await makeAudio({ format, samples: new Float32Array(2 * 48_000), rate: 48_000 }),
        name,
      )
      const heard = await openai.audio.transcriptions.create({ model: MODEL, file: recording })
      expect([name, heard.usage]).toMatchObject([name, { input_token_details: { audio_tokens: 25 } }])
    }
  } finally {
    await real.close()
    await hearing.remove()
  }
})
