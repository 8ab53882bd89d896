import fc from 'fast-check'
import sharp from 'sharp'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { FakeEngine } from './support/fake-engine.ts'
import { jsonOf, startTestServer, type TestServer } from './support/server.ts'
import { makeVideo, type VideoSpec } from './support/video.ts'

/** Times count from the container's start, and lie within the video. */
const still = { width: 64, height: 64, data: new Uint8Array(64 * 64 * 3) }
const twenty = Array.from({ length: 20 }, () => still)
/** Two seconds that begin at the third. */
const late = twenty.map((_, i) => 3000 + i * 100)

let engine: FakeEngine
let server: TestServer
beforeAll(async () => {
  engine = new FakeEngine({ modalities: { image: true, audio: true } })
  server = await startTestServer({ engine })
})
afterAll(() => server?.close())
beforeEach(() => {
  engine.script = { texts: ['Hello'] }
})

/** The end of `twenty`: the edit list of the test's MP4 leaves out the last frame. */
const ENDS = { mp4: 1.9, webm: 2 } as const

const film = async (spec: Partial<VideoSpec> & Pick<VideoSpec, 'format'> = { format: 'mp4' }) => {
  const bytes = await makeVideo({ frames: twenty, ...spec })
  return { type: 'video_url', video_url: { url: `data:video/${spec.format};base64,${bytes.toString('base64')}` } }
}
const picture = async () => {
  const png = await sharp(still.data, { raw: { width: 64, height: 64, channels: 3 } })
    .png()
    .toBuffer()
  return `data:image/png;base64,${png.toString('base64')}`
}
const framesAt = async (...times: number[]) => {
  const image_url = { url: await picture() }
  return { type: 'video_frames', video_frames: { frames: times.map((timestamp_ms) => ({ image_url, timestamp_ms })) } }
}

async function answer(content: object[], format: string, text: string, vision: object = {}): Promise<string> {
  engine.script = { texts: [text] }
  const response = await server.post('/v1/chat/completions', {
    model: 'service-mk1.5',
    messages: [{ role: 'user', content: [...content, { type: 'text', text: 'When?' }] }],
    vision_config: { annotation_format: format, ...vision },
  })
  expect(response.status, await response.clone().text()).toBe(200)
  return (await jsonOf<{ choices: { message: { content: string } }[] }>(response)).choices[0]!.message.content
}

/** The times that the model reads before the frames, in seconds. */
function timesShown(): number[] {
  const texts = engine.works.at(-1)!.prefix.flatMap((part) => (part.type === 'text' && part.trusted ? [part.text] : []))
  return [...texts.join('').matchAll(/<([\d.]+) seconds>/g)].map(([, seconds]) => Number(seconds))
}

describe('clips', () => {
  it.each([
    ['1 seconds 13 seconds', '1 seconds END seconds'],
    ['5 seconds 13 seconds', 'END seconds END seconds'],
    ['13 seconds 1 seconds', '1 seconds END seconds'],
    ['7 seconds', 'END seconds'],
    ['0.25 seconds 1.5 seconds', '0.25 seconds 1.5 seconds'],
  ])('of two seconds: %s becomes %s', async (written, expected) => {
    for (const format of ['mp4', 'webm'] as const) {
      const clip = (t: string) => `<clip mention="it" t="${t}" />`
      expect(await answer([await film({ format })], 'clip', clip(written))).toBe(
        clip(expected.replaceAll('END', `${ENDS[format]}`)),
      )
    }
  })

  it('lie within any video, in order', async () => {
    const time = fc.integer({ min: 0, max: 99_999 }).map((ms) => ms / 1000)
    const lengths = fc.integer({ min: 3, max: 40 })
    await fc.assert(
      fc.asyncProperty(lengths, time, time, async (length, from, to) => {
        const step = 70
        const video = await film({
          format: 'webm',
          frames: Array.from({ length }, () => still),
          times: Array.from({ length }, (_, i) => i * step),
        })
        const text = await answer([video], 'clip', `<clip t="${from} seconds ${to} seconds" />`)
        const [, start, end] = /t="([\d.]+) seconds ([\d.]+) seconds"/.exec(text)!
        expect(Number(start)).toBeLessThanOrEqual(Number(end))
        expect(Number(end)).toBeLessThanOrEqual((length * step) / 1000)
      }),
      { numRuns: 15 },
    )
  })

  it('of frames lie between the first and the last', async () => {
    const frames = await framesAt(500, 1000, 2500)
    expect(await answer([frames], 'clip', '<clip t="0 seconds 9 seconds" />')).toBe(
      '<clip t="0.5 seconds 2.5 seconds" />',
    )
  })

  it('lie within the video that they name', async () => {
    const videos = [await film({ format: 'mp4', frames: twenty.slice(10) }), await film()]
    const text = await answer(videos, 'clip', '<clip asset_idx="0" t="0 seconds 9 seconds" />')
    if (text.includes('asset_idx="0"')) expect(text).toContain('t="0 seconds 0.9 seconds"')
  })
})

it('places in videos have times within them', async () => {
  const text = await answer([await film({ format: 'webm' })], 'point', '<point t="7.5 seconds"> (1,2) </point>')
  expect(text).toBe('<point t="2.0 seconds"> (1,2) </point>')
})

describe('a video whose pictures begin at the third second', () => {
  it.each(['mp4', 'webm'] as const)('is shown and answered by the time of its container: %s', async (format) => {
    for (const audioSeconds of [undefined, 5]) {
      const video = await film({ format, times: late, ...(audioSeconds === undefined ? {} : { audioSeconds }) })
      const text = await answer([video], 'clip', '<clip t="3.5 seconds 13 seconds" />')
      expect(text).toBe(`<clip t="3.5 seconds ${3 + ENDS[format]} seconds" />`)
      const shown = timesShown()
      expect(shown[0]).toBeGreaterThanOrEqual(3)
      expect(shown[0]).toBeLessThan(3.5)
      expect(shown.at(-1)).toBeLessThanOrEqual(5)
    }
  })

  it('has no clips before them, unless something is heard there', async () => {
    const video = await film({ format: 'webm', times: late, audioSeconds: 5 })
    const clip = (from: number) => `<clip t="${from} seconds 4 seconds" />`
    expect(await answer([video], 'clip', clip(1))).toBe(clip(3))
    expect(await answer([video], 'clip', clip(1), { enable_audio_in_video: true })).toBe(clip(1))
  })
})

it('clips of multilook and of decisions lie within the video', async () => {
  engine.script = { texts: ['<clip t="1 seconds 13 seconds" />'] }
  const user = { role: 'user', content: [await film({ format: 'webm' })] }
  const looked = await server.post('/v1/chat/completions/multilook', {
    model: 'service-mk1.5',
    context: [user],
    prompts: ['When?'],
    vision_config: { annotation_format: 'clip' },
  })
  const { results } = await jsonOf<{ results: { completions: { message: { content: string } }[] }[] }>(looked)
  expect(results[0]!.completions[0]!.message.content).toBe('<clip t="1 seconds 2 seconds" />')
  const decided = await server.post('/v1/decisions', {
    model: 'service-mk1.5',
    input: [user],
    questions: [{ type: 'x_clip', instructions: 'When?' }],
  })
  expect(await jsonOf(decided)).toMatchObject({ answers: [{ clip: { start_seconds: 1, end_seconds: 2 } }] })
})
