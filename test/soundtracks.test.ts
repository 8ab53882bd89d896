import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { FakeEngine } from './support/fake-engine.ts'
import { type HearingCard, hearingCard } from './support/hearing-card.ts'
import { CARD } from './support/local-engine.ts'
import { errorOf, jsonOf, startTestServer, type TestServer } from './support/server.ts'
import { makeAudio, makeVideo, SOUNDTRACK_RATE, tone } from './support/video.ts'
import { makeFloatWav } from './support/wav.ts'

/** What reaches the engine of sounds, alone and in videos. */
const RATE = 16_000

let card: HearingCard
let engine: FakeEngine
let server: TestServer
beforeAll(async () => {
  card = await hearingCard()
  engine = new FakeEngine({ modalities: { image: true, audio: true } })
  server = await startTestServer({ engine, environment: { LOOKOUT_MODEL_CARD: card.path } })
})
afterAll(async () => {
  await server?.close()
  await card?.remove()
})

async function heard(part: object, fields: object = {}): Promise<Float32Array[]> {
  const response = await server.post('/v1/chat/completions', {
    model: 'service-mk1.5',
    messages: [{ role: 'user', content: [part, { type: 'text', text: 'What is this?' }] }],
    ...fields,
  })
  expect(response.status, await response.clone().text()).toBe(200)
  return engine.works.at(-1)!.prefix.flatMap((part) => (part.type === 'audio' ? [part.samples] : []))
}

const audio = (bytes: Buffer) => ({
  type: 'input_audio',
  input_audio: { data: bytes.toString('base64'), format: 'wav' },
})

describe('the shipped model', () => {
  let shipped: TestServer
  beforeAll(async () => {
    shipped = await startTestServer({ engine, environment: { LOOKOUT_MODEL_CARD: CARD } })
  })
  afterAll(() => shipped?.close())

  const silence = async (samples: number) =>
    audio(await makeAudio({ format: 'flac', samples: new Float32Array(samples), rate: RATE }))
  const ask = (part: object) =>
    shipped.post('/v1/chat/completions', {
      model: 'service-mk1.5',
      messages: [{ role: 'user', content: [part, { type: 'text', text: 'What is this?' }] }],
    })

  it('takes 8,192 tokens of audio, which are 655.36 seconds, and no more', async () => {
    expect((await ask(await silence(655.36 * RATE))).status).toBe(200)
    const refused = await ask(await silence(656 * RATE))
    expect(refused.status).toBe(400)
    expect(await errorOf(refused)).toMatchObject({
      message: 'The audio is longer than 8192 audio tokens, about 655 seconds',
      type: 'invalid_request_error',
      code: 'audio_token_limit_exceeded',
      param: 'messages[0].content[0].input_audio',
    })
  })
})

describe('several channels', () => {
  const sine = (level: number) => Float32Array.from({ length: RATE / 2 }, (_, i) => level * Math.sin(i / 5))
  const mixed = async (channels: Float32Array[], mask: number) => {
    const [samples] = await heard(audio(makeFloatWav({ channels, rate: RATE, mask })))
    return samples!
  }
  const level = (samples: Float32Array) => samples.reduce((most, sample) => Math.max(most, Math.abs(sample)), 0)

  it('that are equal sound like one of them, in any layout', async () => {
    const layouts = fc.oneof(
      fc.constantFrom(0b11, 0x3f, 0x63f, 0x8, 0x4, 0x3f | 0x5000, 0xff),
      fc.integer({ min: 1, max: 0x3ffff }),
      fc.constant(0),
    )
    await fc.assert(
      fc.asyncProperty(layouts, fc.integer({ min: 1, max: 16 }), async (mask, unknown) => {
        const count = mask === 0 ? unknown : mask.toString(2).replaceAll('0', '').length
        const one = sine(0.9)
        const samples = await mixed(Array(count).fill(one), mask)
        expect(samples.length).toBe(one.length)
        for (const [i, sample] of samples.entries()) if (Math.abs(sample - one[i]!) > 1e-4) expect(sample).toBe(one[i])
      }),
      { numRuns: 25 },
    )
  })

  it('of opposite phase cancel out, and are not clipped', async () => {
    expect(level(await mixed([sine(1), sine(-1)], 0b11))).toBeLessThan(1e-4)
  })

  it('for low frequencies are left out, unless there is no other', async () => {
    const silent = new Float32Array(RATE / 2)
    expect(level(await mixed([silent, silent, silent, sine(1), silent, silent], 0x3f))).toBeLessThan(1e-4)
    expect(level(await mixed([sine(0.9)], 0x8))).toBeCloseTo(0.9, 2)
  })

  it('the centre is heard best', async () => {
    const silent = new Float32Array(RATE / 2)
    const levels = []
    for (let at = 0; at < 6; at++) {
      const channels = Array.from({ length: 6 }, (_, channel) => (channel === at ? sine(1) : silent))
      levels.push(level(await mixed(channels, 0x3f)))
    }
    expect(Math.max(...levels)).toBe(levels[2])
    expect(levels.reduce((sum, one) => sum + one, 0)).toBeCloseTo(1, 2)
  })
})

describe('the soundtrack of a video', () => {
  const still = { width: 64, height: 64, data: new Uint8Array(64 * 64 * 3) }
  const frames = Array.from({ length: 20 }, () => still)
  const watch = async (format: 'mp4' | 'webm' | 'mov', bytes: Buffer, path = '/v1/chat/completions') => {
    const part =
      format === 'mov'
        ? { type: 'video_file_id', video_file_id: { file_id: await upload(bytes) } }
        : { type: 'video_url', video_url: { url: `data:video/${format};base64,${bytes.toString('base64')}` } }
    const turn = { role: 'user', content: [part, { type: 'text', text: 'What is this?' }] }
    const vision_config = { enable_audio_in_video: true }
    const asked = path.endsWith('multilook') ? { context: [turn], prompts: ['And?'] } : { messages: [turn] }
    const response = await server.post(path, { model: 'service-mk1.5', vision_config, ...asked })
    expect(response.status, await response.clone().text()).toBe(200)
    const parts = engine.works.at(-1)!.prefix
    return {
      seen: parts.filter(({ type }) => type === 'frames').length,
      sound: parts.find((one) => one.type === 'audio')?.samples ?? null,
      note: response.headers.get('x-lookout-note'),
    }
  }
  const upload = async (bytes: Buffer) => {
    const form = new FormData()
    form.set('purpose', 'vision')
    form.set('file', new Blob([new Uint8Array(bytes)], { type: 'video/quicktime' }), 'a.mov')
    // The contract requires Content-Length, which a stream does not have.
    const request = new Request(server.url, { method: 'POST', body: form })
    const type = request.headers.get('content-type')!
    const sent = new Uint8Array(await request.arrayBuffer())
    const response = await server.post('/v1/files', sent, { 'content-type': type })
    return (await jsonOf<{ id: string }>(response)).id
  }
  const loudness = (samples: Float32Array, from: number, to: number) => {
    const part = samples.subarray(from * RATE, to * RATE)
    return Math.sqrt(part.reduce((sum, sample) => sum + sample * sample, 0) / part.length)
  }

  it.each<[string, 'mp4' | 'mov', RegExp]>([
    ['dca', 'mp4', /is not analysed: the audio codec is not supported/],
    ['truehd', 'mp4', /is not analysed/],
    ['adpcm_ms', 'mov', /is not analysed/],
    ['adpcm_ima_wav', 'mov', /is not analysed/],
    ['pcm_s8', 'mov', /is not analysed/],
    ['pcm_f32be', 'mov', /is not analysed/],
  ])('that cannot be decoded is left out, and the frames are seen: %s', async (codec, format, note) => {
    const bytes = await makeVideo({ format, frames, audioSeconds: 2, soundCodecs: [codec] })
    for (const path of ['/v1/chat/completions', '/v1/chat/completions/multilook']) {
      const watched = await watch(format, bytes, path)
      expect(watched).toMatchObject({ sound: null, note: expect.stringMatching(note) })
      expect(watched.seen).toBeGreaterThan(1)
    }
  })

  it('that is damaged is left out, or heard in part', async () => {
    const whole = await makeVideo({ format: 'mp4', frames, audioSeconds: 2 })
    const whose = (await watch('mp4', whole)).sound!
    expect(whose.length / RATE).toBeCloseTo(2, 1)
    // The data of the only audio track follow those of the frames, up to the index.
    const end = whole.indexOf('moov') - 4
    const silenced = Buffer.from(whole).fill(0xff, end - 3000, end)
    const part = await watch('mp4', silenced)
    expect(part.seen).toBeGreaterThan(1)
    expect(part.note).toMatch(/^The soundtrack of a video is (damaged; a part of it is|not) analysed/)
  })

  it('is the first track that can be decoded', async () => {
    const bytes = await makeVideo({ format: 'mp4', frames, audioSeconds: 2, soundCodecs: ['dca', 'truehd', 'aac'] })
    const { sound, note } = await watch('mp4', bytes)
    expect(sound!.length / RATE).toBeCloseTo(2, 1)
    expect(note).toBeNull()
  })

  it('that is empty is no soundtrack', async () => {
    const bytes = await makeVideo({ format: 'mp4', frames, soundtrack: new Float32Array(0) })
    expect(await watch('mp4', bytes)).toMatchObject({ sound: null })
  })

  it('that is too long is refused', async () => {
    const soundtrack = new Float32Array(90 * SOUNDTRACK_RATE)
    const bytes = await makeVideo({ format: 'mp4', frames, soundtrack })
    const url = `data:video/mp4;base64,${bytes.toString('base64')}`
    const response = await server.post('/v1/chat/completions', {
      model: 'service-mk1.5',
      messages: [{ role: 'user', content: [{ type: 'video_url', video_url: { url } }] }],
      vision_config: { enable_audio_in_video: true },
    })
    expect(await errorOf(response)).toMatchObject({
      code: 'audio_token_limit_exceeded',
      param: 'messages[0].content[0].video_url',
    })
  })

  it.each(['mp4', 'webm', 'mov'] as const)('of a segment begins where that begins: %s', async (format) => {
    const soundtrack = Float32Array.from({ length: SOUNDTRACK_RATE }, (_, i) => tone(i / SOUNDTRACK_RATE))
    const times = frames.map((_, i) => 400_000 + i * 100)
    const { sound } = await watch(format, await makeVideo({ format, frames, times, soundtrack, soundFrom: 401_000 }))
    expect(sound!.length / RATE).toBeCloseTo(2, 1)
    expect(loudness(sound!, 0, 0.9)).toBeLessThan(0.01)
    expect(loudness(sound!, 1.1, 1.9)).toBeGreaterThan(0.3)
  })

  it.each(['mp4', 'webm', 'mov'] as const)('that begins later is heard later: %s', async (format) => {
    const soundtrack = Float32Array.from({ length: SOUNDTRACK_RATE }, (_, i) => tone(i / SOUNDTRACK_RATE))
    const bytes = await makeVideo({ format, frames, soundtrack, soundFrom: 1000 })
    const { sound } = await watch(format, bytes)
    expect(sound!.length / RATE).toBeCloseTo(2, 1)
    expect(loudness(sound!, 0, 0.9)).toBeLessThan(0.01)
    expect(loudness(sound!, 1.1, 1.9)).toBeGreaterThan(0.3)
  })
})
