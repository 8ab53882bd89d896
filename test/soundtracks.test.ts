import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { FakeEngine } from './support/fake-engine.ts'
import { type HearingCard, hearingCard } from './support/hearing-card.ts'
import { CARD } from './support/local-engine.ts'
import { errorOf, startTestServer, type TestServer } from './support/server.ts'
import { makeAudio } from './support/video.ts'
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
