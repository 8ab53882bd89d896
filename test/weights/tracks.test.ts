import sharp, { type Sharp } from 'sharp'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { TestServer } from '../support/server.ts'
import { startShippedServer } from '../support/shipped-model.ts'
import { makeVideo } from '../support/video.ts'

/** What the shipped model follows: two circles that pass each other, one of which is away for a while. */
let server: TestServer
beforeAll(async () => {
  server = await startShippedServer()
})
afterAll(() => server?.close())

const SIZE = { width: 480, height: 360 }
const FRAMES_PER_SECOND = 10
const SECONDS = 4

interface Answer {
  readonly detections: readonly {
    readonly track: number
    readonly timestamp: number
    readonly point_box: Readonly<Record<'top_left' | 'bottom_right', { readonly x: number; readonly y: number }>>
  }[]
  readonly timestamps: readonly number[]
  readonly state: string
}

/** Centres of the red and of the blue circle; the blue one is away in the second second. */
function centresAt(seconds: number) {
  const way = 85 * seconds
  return { red: [80 + way, 120] as const, blue: seconds >= 1 && seconds < 2 ? null : ([400 - way, 230] as const) }
}

function draw(seconds: number): Sharp {
  const { red, blue } = centresAt(seconds)
  const circle = ([x, y]: readonly [number, number], fill: string) =>
    `<circle cx="${x}" cy="${y}" r="42" fill="${fill}"/>`
  const circles = `${circle(red, '#da2626')}${blue ? circle(blue, '#2458d6') : ''}`
  const { width, height } = SIZE
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}"><rect width="100%" height="100%" fill="#eee8dd"/>${circles}</svg>`
  return sharp(Buffer.from(svg)).removeAlpha()
}

async function track(media: object, config: object = {}): Promise<Answer> {
  const body = { media, categories: ['circle'], config: { tracks: true, ...config } }
  const answer = await (await server.post('/v1/detect', body)).json()
  expect(answer).toHaveProperty('detections')
  return answer as Answer
}

/** The thing that a box is of. */
function thingAt({ timestamp, point_box: { top_left: from, bottom_right: to } }: Answer['detections'][number]) {
  const [x, y] = [(from.x + to.x) / 2, (from.y + to.y) / 2]
  const { red, blue } = centresAt(timestamp)
  const isAt = (centre: readonly [number, number] | null) =>
    centre !== null && Math.hypot(x - centre[0], y - centre[1]) < 25
  return isAt(red) ? 'red' : isAt(blue) ? 'blue' : 'nothing'
}

test('things in a video keep their tracks, also when they come back', async () => {
  const frames = await Promise.all(
    Array.from({ length: SECONDS * FRAMES_PER_SECOND + 1 }, async (_, index) => {
      return {
        ...SIZE,
        data: await draw(index / FRAMES_PER_SECOND)
          .raw()
          .toBuffer(),
      }
    }),
  )
  const bytes = await makeVideo({ format: 'mp4', frames, bitsPerSecond: 2_000_000 })
  const answer = await track({ type: 'video', video_url: `data:video/mp4;base64,${bytes.toString('base64')}` })
  expect(answer.timestamps).toEqual([0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5])
  const seen = new Map<string, Set<number>>()
  for (const found of answer.detections) {
    const thing = thingAt(found)
    seen.set(thing, (seen.get(thing) ?? new Set()).add(found.track))
  }
  expect(seen).toEqual(
    new Map([
      ['red', new Set([seen.get('red')!.values().next().value])],
      ['blue', new Set([seen.get('blue')!.values().next().value])],
    ]),
  )
  expect(answer.detections.length).toBeGreaterThanOrEqual(12)
})

test('frames one by one are followed as all at once', async () => {
  const frames = await Promise.all(
    [0, 0.5, 1, 1.5, 2, 2.5].map(async (timestamp) => {
      const png = await draw(timestamp).png().toBuffer()
      return { image_url: `data:image/png;base64,${png.toString('base64')}`, timestamp }
    }),
  )
  const whole = await track({ type: 'frames', frames })
  const single: Answer[] = []
  for (const frame of frames) {
    const state = single.at(-1)?.state
    single.push(await track({ type: 'frames', frames: [frame] }, state === undefined ? {} : { state }))
  }
  expect(single.flatMap(({ detections }) => detections)).toEqual(whole.detections)
  expect(single.at(-1)!.state).toBe(whole.state)
})
