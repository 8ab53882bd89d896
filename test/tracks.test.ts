import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import sharp from 'sharp'
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import type { Branch } from '../src/inference/contract/work.ts'
import { TestAccounts } from './support/accounts.ts'
import { changedCard } from './support/changed-card.ts'
import { outcomeOf, startLookout } from './support/command-line.ts'
import type { BranchScript, FakeEngine } from './support/fake-engine.ts'
import { errorOf, jsonOf, KEY, startTestServer, type TestServer } from './support/server.ts'
import { makeVideo } from './support/video.ts'

const PATH = '/v1/detect'
const SIZE = { width: 400, height: 200 }
/** Between the gray of two frames: that of the first one is 0. */
const GRAY = 20

interface Thing {
  readonly name: string
  /** On the grid, in each frame; null where it is not seen. */
  readonly at: readonly (readonly [x: number, y: number] | null)[]
  /** The frames in which it is found by its name alone. */
  readonly hidden?: readonly number[]
}

interface Answer {
  detections: {
    mention: string
    track: number
    timestamp: number
    point?: object
    point_box?: { top_left: { x: number; y: number }; bottom_right: { x: number; y: number } }
  }[]
  finish_reason: string
  timestamps: number[]
  frames_left?: number
  state: string
}

/** Two servers that share a database, as replicas do. */
let server: TestServer
let replica: TestServer

beforeAll(async () => {
  server = await startTestServer()
  replica = await startTestServer()
})
afterAll(async () => {
  await server?.close()
  await replica?.close()
})
beforeEach(() => {
  server.engine.works.length = 0
})

/** Plays a model that sees these things, and finds those whose names end with what it is asked for. */
function show(things: readonly Thing[], { engine }: TestServer = server, more: object = {}): void {
  engine.script = {
    ...more,
    branch: (branch) => {
      const frame = frameOf(engine)
      const asked = askedOf(branch)
      const found = things.flatMap(({ name, at, hidden = [] }) => {
        const [place, isHidden] = [at[frame], hidden.includes(frame)]
        if (!place || (asked !== null && asked !== name && (isHidden || !name.endsWith(asked)))) return []
        const [x, y] = place
        return [`<point_box mention="${asked ?? name}"> (${x - 40},${y - 80}) (${x + 40},${y + 80}) </point_box>`]
      })
      return { texts: [found.join('\n') || 'None.'] } satisfies BranchScript
    },
  }
}

/** Null for all objects. */
function askedOf({ suffix }: Branch): string | null {
  const text = suffix.map((part) => (part.type === 'text' ? part.text : '')).join('')
  return /Detect: (.*?)<\|im_end\|>/.exec(text)?.[1] ?? null
}

function frameOf({ works }: FakeEngine): number {
  const shown = works.at(-1)!.prefix.at(-1)!
  return shown.type === 'image' ? Math.round(shown.image.data[0]! / GRAY) : -1
}

async function frame(index: number): Promise<object> {
  const level = index * GRAY
  const bytes = await sharp({ create: { ...SIZE, channels: 3, background: { r: level, g: level, b: level } } })
    .png()
    .toBuffer()
  return { image_url: `data:image/png;base64,${bytes.toString('base64')}`, timestamp: index / 2 }
}

async function frames(count: number, from = 0): Promise<object> {
  return { type: 'frames', frames: await Promise.all(Array.from({ length: count }, (_, i) => frame(from + i))) }
}

function body(
  media: object,
  {
    categories = ['circle'] as string[] | undefined,
    ...config
  }: { categories?: string[] | null } & Record<string, unknown> = {},
) {
  return { media, ...(categories ? { categories } : {}), config: { tracks: true, ...config } }
}

async function track(media: object, fields: Parameters<typeof body>[1] = {}, from = server): Promise<Answer> {
  const json = await jsonOf<Answer>(await from.post(PATH, body(media, fields)))
  expect(json).toHaveProperty('detections')
  return json
}

const tracksOf = ({ detections }: Pick<Answer, 'detections'>) =>
  detections.map(({ timestamp, track, point_box: box }) => [timestamp, track, box?.top_left.x])

const CROSSING: readonly Thing[] = [
  { name: 'red circle', at: [0, 1, 2, 3, 4].map((step) => [200 + 120 * step, 500] as const) },
  { name: 'blue circle', at: [0, 1, 2, 3, 4].map((step) => [680 - 120 * step, 510] as const) },
]

describe('tracks', () => {
  test('say which detections of the frames are of one thing', async () => {
    show(CROSSING)
    const answer = await track(await frames(5))
    expect(answer.detections[0]).toEqual({
      mention: 'circle',
      point_box: { top_left: { x: 64, y: 84 }, bottom_right: { x: 96, y: 116 } },
      track: 1,
      timestamp: 0,
    })
    expect(tracksOf(answer)).toEqual(
      [0, 1, 2, 3, 4].flatMap((step) => [
        [step / 2, 1, 64 + 48 * step],
        [step / 2, 2, 256 - 48 * step],
      ]),
    )
    expect(answer).toMatchObject({ finish_reason: 'complete', timestamps: [0, 0.5, 1, 1.5, 2] })
    expect(answer).not.toHaveProperty('frames_left')
    expect(answer).not.toHaveProperty('width')
  })

  test('have their labels as they were sent, blanks included', async () => {
    show(CROSSING)
    const { detections } = await track(await frames(2), { categories: ['circle '] })
    expect(detections.map(({ track, mention }) => [track, mention])).toEqual([1, 2, 1, 2].map((id) => [id, 'circle ']))
  })

  test('a thing is looked for under the name that it was given when it was first seen', async () => {
    show([
      {
        name: 'red circle',
        at: [
          [300, 300],
          [320, 300],
          [340, 300],
          [360, 300],
        ],
        hidden: [2],
      },
      { name: 'blue circle', at: [[700, 300], null, null, [700, 320]] },
    ])
    const answer = await track(await frames(4))
    expect(tracksOf(answer)).toEqual([
      [0, 1, 104],
      [0, 2, 264],
      [0.5, 1, 112],
      [1, 1, 120],
      [1.5, 1, 128],
      [1.5, 2, 264],
    ])
    expect(new Set(answer.detections.map(({ mention }) => mention))).toEqual(new Set(['circle']))
    const asked = server.engine.works.map(({ branches }) => branches.map(askedOf))
    const named = ['circle', 'red circle', 'blue circle']
    expect(asked).toEqual([['circle'], [null], named, named, named])
  })

  test('two alike things that change places between two frames are told apart by their names', async () => {
    const places = [
      [300, 300],
      [380, 300],
    ] as const
    show([
      { name: 'red circle', at: [places[0], places[1]] },
      { name: 'blue circle', at: [places[1], places[0]] },
    ])
    expect(tracksOf(await track(await frames(2)))).toEqual([
      [0, 1, 104],
      [0, 2, 136],
      [0.5, 1, 136],
      [0.5, 2, 104],
    ])
  })

  test('a thing that is away for longer than the patience is another one', async () => {
    show([{ name: 'circle', at: [[300, 300], [300, 300], null, null, [300, 300]] }])
    const media = await frames(5)
    expect(tracksOf(await track(media)).at(-1)).toEqual([2, 1, 104])
    expect(tracksOf(await track(media, { patience: 1 })).at(-1)).toEqual([2, 2, 104])
  })

  test('without categories, every object is followed under its name', async () => {
    show(CROSSING)
    const { detections } = await track(await frames(2), { categories: null })
    expect(detections.map(({ mention, track }) => [mention, track])).toEqual([
      ['red circle', 1],
      ['blue circle', 2],
      ['red circle', 1],
      ['blue circle', 2],
    ])
  })

  test('may be of points', async () => {
    show(CROSSING)
    const { detections } = await track(await frames(2), { categories: ['circle', 'square'], output: 'point' })
    expect(detections.map(({ point, track }) => [point, track])).toEqual([
      [{ x: 80, y: 100 }, 1],
      [{ x: 272, y: 102 }, 2],
      [{ x: 128, y: 100 }, 1],
      [{ x: 224, y: 102 }, 2],
    ])
  })

  test('go on as points where they began as boxes, and when a model answers with points', async () => {
    show([{ name: 'red circle', at: [[300, 300], null] }])
    const { state } = await track(await frames(1))
    server.engine.script = {
      branch: (branch) => ({ texts: [`<point mention="${askedOf(branch)}"> (310,300) </point>`] }),
    }
    const found = [[0.5, 1, { x: 124, y: 60 }]]
    for (const output of ['point', 'box']) {
      const answer = await track(await frames(1, 1), { state, output })
      expect(answer.detections.map(({ timestamp, track, point }) => [timestamp, track, point])).toEqual(found)
    }
  })

  test('a video is sampled, and its pixels are those of the upright original', async () => {
    const size = { width: 320, height: 160 }
    const pictures = Array.from({ length: 31 }, (_, index) => {
      return { ...size, data: Buffer.alloc(size.width * size.height * 3, Math.floor(index / 10) * GRAY) }
    })
    const bytes = await makeVideo({ format: 'mp4', frames: pictures })
    const media = { type: 'video', video_url: `data:video/mp4;base64,${bytes.toString('base64')}` }
    const still = (x: number) => [x, 500] as const
    show([{ name: 'circle', at: [still(200), still(300), still(400)] }])
    const answer = await track(media)
    expect(answer.timestamps).toEqual([0, 0.5, 1, 1.5, 2, 2.5])
    expect(answer).toMatchObject(size)
    expect(tracksOf(answer)).toEqual([
      [0, 1, 51],
      [0.5, 1, 51],
      [1, 1, 83],
      [1.5, 1, 83],
      [2, 1, 115],
      [2.5, 1, 115],
    ])
    expect(await track(media, { state: answer.state })).toMatchObject({ detections: [], timestamps: [] })
  })
})

test.each([300, 700])('times are those of the frames, which are %d ms apart', async (apart) => {
  const times = Array.from({ length: 6 }, (_, index) => index * apart)
  const pictures = times.map((_, index) => {
    return { ...SIZE, data: Buffer.alloc(SIZE.width * SIZE.height * 3, index * GRAY) }
  })
  const bytes = await makeVideo({ format: 'mp4', frames: pictures, times })
  const seen: number[] = []
  server.engine.script = {
    branch: () => {
      seen.push(times[frameOf(server.engine)]! / 1000)
      return { texts: ['None.'] }
    },
  }
  const answer = await track({ type: 'video', video_url: `data:video/mp4;base64,${bytes.toString('base64')}` })
  expect(answer.timestamps).toEqual(seen)
  expect(new Set(seen).size).toBe(seen.length)
})

test('the frame that is shown for a damaged one has its own time', async () => {
  const pictures = [0, 1, 2, 3].map((index) => ({
    ...SIZE,
    data: Buffer.alloc(SIZE.width * SIZE.height * 3, index * GRAY),
  }))
  const times = pictures.map((_, index) => index * 300)
  const bytes = await makeVideo({ format: 'webm', codec: 'libvpx', frames: pictures, times, interval: 1 })
  // The mark of a key frame.
  bytes[bytes.indexOf(Buffer.from([0x9d, 0x01, 0x2a]))] = 0
  show([])
  const answer = await track({ type: 'video', video_url: `data:video/webm;base64,${bytes.toString('base64')}` })
  expect(answer.timestamps[0]).toBe(0.3)
})

describe('the state', () => {
  test('frames one by one, at any replica, are followed as all at once', async () => {
    const things: Thing[] = [
      ...CROSSING,
      { name: 'red circle', at: [[100, 100], [110, 110], null, [130, 130], [140, 140]] },
    ]
    show(things)
    show(things, replica)
    const whole = await track(await frames(5))
    const single: Answer[] = []
    for (const index of [0, 1, 2, 3, 4]) {
      const state = single.at(-1)?.state
      single.push(await track(await frames(1, index), state ? { state } : {}, index % 2 === 0 ? server : replica))
    }
    expect(single.flatMap(({ detections }) => detections)).toEqual(whole.detections)
    expect(single.at(-1)!.state).toBe(whole.state)
    expect(whole.state.length).toBeLessThan(8_000)
  })

  test('of another organisation or model, or a changed one, is refused', async () => {
    show(CROSSING)
    const { state } = await track(await frames(1))
    const next = await frames(1, 1)
    const accounts = await TestAccounts.open()
    const { key } = await accounts.organisation().finally(() => accounts.close())
    const changed = state.slice(0, 40) + (state[40] === 'A' ? 'B' : 'A') + state.slice(41)
    for (const [sent, fields, headers] of [
      [state, {}, { authorization: `Bearer ${key}` }],
      [state, { model: 'service-mk1' }, {}],
      [changed, {}, {}],
      ['', {}, {}],
      ['x', {}, {}],
    ] as const) {
      const response = await server.post(PATH, { ...body(next, { state: sent }), ...fields }, headers)
      expect(response.status).toBe(400)
      const error = await errorOf(response)
      expect(error).toMatchObject({ type: 'invalid_request_error', param: 'config.state' })
    }
    expect((await track(next, { state })).detections.map(({ track }) => track)).toEqual([1, 2])
  })

  test('frames before it are refused', async () => {
    show(CROSSING)
    const { state } = await track(await frames(2, 1))
    const response = await server.post(PATH, body(await frames(1), { state }))
    expect(response.status).toBe(400)
    expect(await errorOf(response)).toMatchObject({ param: 'media.frames[0].timestamp' })
  })
})

describe('the time limit', () => {
  const SECONDS = 77
  let hasty: TestServer
  beforeAll(async () => {
    hasty = await startTestServer({ environment: { LOOKOUT_CHAT_SECONDS: String(SECONDS) } })
  })
  afterAll(() => hasty?.close())

  /** The engine does not answer about this frame, and then the time is up. */
  function stuckAt(index: number): void {
    const timers = vi.spyOn(globalThis, 'setTimeout')
    const timeIsUp = () => {
      for (const [ring, ms] of timers.mock.calls) if (ms === SECONDS * 1000) (ring as () => void)()
    }
    show(CROSSING, hasty)
    const { branch } = hasty.engine.script
    hasty.engine.script = {
      branch: (one, at) => {
        if (frameOf(hasty.engine) !== index) return branch!(one, at)
        setImmediate(timeIsUp)
        return { texts: [], endless: true }
      },
    }
  }

  test('leaves out frames at the end, with which the state goes on', async () => {
    stuckAt(2)
    const answer = await track(await frames(4), {}, hasty)
    expect(answer).toMatchObject({ finish_reason: 'length', timestamps: [0, 0.5], frames_left: 2 })
    show(CROSSING, hasty)
    const rest = await track(await frames(2, 2), { state: answer.state }, hasty)
    expect(rest.detections.map(({ track }) => track)).toEqual([1, 2, 1, 2])
  })

  test('the command asks again for the frames that are left', async () => {
    stuckAt(1)
    const { branch } = hasty.engine.script
    let isStuck = false
    hasty.engine.script = {
      branch: (one, at) => {
        if (!isStuck || frameOf(hasty.engine) !== 1) {
          isStuck ||= frameOf(hasty.engine) === 1
          return branch!(one, at)
        }
        return { texts: ['None.'] }
      },
    }
    const pictures = Array.from({ length: 21 }, (_, index) => {
      return { ...SIZE, data: Buffer.alloc(SIZE.width * SIZE.height * 3, Math.floor(index / 10) * GRAY) }
    })
    const folder = await mkdtemp(join(tmpdir(), 'lookout-tracks-'))
    const file = join(folder, 'clip.mp4')
    await writeFile(file, await makeVideo({ format: 'mp4', frames: pictures }))
    const settings = { LOOKOUT_URL: hasty.url, LOOKOUT_API_KEY: KEY }
    const run = await outcomeOf(startLookout(['detect', file, 'circle', '--tracks', '--json'], settings))
    expect(run.stderr).toMatch(/2 frames are left/)
    expect(JSON.parse(run.stdout)).toMatchObject({ timestamps: [0, 0.5, 1, 1.5], finish_reason: 'complete' })
    await rm(folder, { recursive: true })
  })

  test('is an error where not one frame is done', async () => {
    stuckAt(0)
    const response = await hasty.post(PATH, body(await frames(2)))
    expect(response.status).toBe(504)
    expect((await errorOf(response)).message).toMatch(/use fewer frames/)
  })
})

test('the price of frames is told before they are searched', async () => {
  const told = async (request: object) => jsonOf(await server.post(`${PATH}/input_tokens`, request))
  const media = (await frames(3)) as { frames: { image_url: string }[] }
  const picture = { type: 'image', image_url: media.frames[0]!.image_url }
  const one = (await told({ media: picture, categories: ['circle'] })) as Record<string, number>
  const named = (await told({ media: picture, categories: ['a'.repeat(48)] })) as Record<string, number>
  const price = (await told(body(media))) as Record<string, number>
  expect(price).toMatchObject({
    object: 'detect.input_tokens',
    input_tokens: 3 * one.input_tokens!,
    frames: 3,
    // In each frame, eight names, and what is new there.
    looks: 27,
    estimated: false,
  })
  expect(price.look_tokens).toBeGreaterThanOrEqual(named.input_tokens!)
  expect(await told(body(media, { patience: 1, categories: [] }))).toMatchObject({ frames: 3, looks: 24 })
  expect(server.engine.works).toEqual([])
})

describe('rejected requests', () => {
  test.each<[string, (media: { frames: object[] }) => object, string, RegExp]>([
    ['frames without tracks', (media) => ({ media, config: {} }), 'media.type', /expected 'image'$/],
    ['a video without tracks', () => ({ media: { type: 'video' }, config: null }), 'media.type', /expected 'image'$/],
    ['other media without tracks', () => ({ media: { type: 'audio' }, config: {} }), 'media.type', /expected 'image'$/],
    ['a picture with tracks', () => ({ media: { type: 'image', image_url: 'https://x' } }), 'media.type', /'frames'/],
    ['other media', () => ({ media: { type: 'audio' } }), 'media.type', /'image', 'video', 'frames'/],
    ['no video', () => ({ media: { type: 'video' } }), 'media.video_url', /required/],
    ['no frames', () => ({ media: { type: 'frames', frames: [] } }), 'media.frames', /at least 1/],
    [
      'many frames',
      ({ frames }) => ({ media: { type: 'frames', frames: Array(257).fill(frames[0]) } }),
      'media.frames',
      /at most 256/,
    ],
    [
      'frames out of order',
      ({ frames }) => ({ media: { type: 'frames', frames: [frames[1], frames[0]] } }),
      'media.frames[1].timestamp',
      /do not decrease/,
    ],
    [
      'a frame without a time',
      () => ({ media: { type: 'frames', frames: [{ image_url: 'https://x' }] } }),
      'media.frames[0].timestamp',
      /required/,
    ],
    [
      'a frame that is not an image',
      ({ frames }) => ({
        media: { type: 'frames', frames: [...frames, { image_url: 'data:image/png;base64,aGk=', timestamp: 9 }] },
      }),
      'media.frames[2].image_url',
      /Unsupported/,
    ],
    [
      'a file that is not a video',
      () => ({ media: { type: 'video', video_url: 'data:video/mp4;base64,aGk=' } }),
      'media.video_url',
      /Unsupported/,
    ],
    [
      'frames and exemplars that are many together',
      ({ frames }) => ({
        media: { type: 'frames', frames: Array(256).fill(frames[0]) },
        negative_exemplars: [{ media: { type: 'image', image_url: 'https://x' } }],
      }),
      'media.frames',
      /at most 256/,
    ],
    [
      'patience without tracks',
      () => ({ media: PICTURE, config: { patience: 1 } }),
      'config.patience',
      /requires tracks/,
    ],
    ['a state without tracks', () => ({ media: PICTURE, config: { state: 'x' } }), 'config.state', /requires tracks/],
    ['confidence', (media) => ({ media, config: { tracks: true, confidence: true } }), 'config.confidence', /tracks/],
    ['tiles', (media) => ({ media, config: { tracks: true, tiles: 'auto' } }), 'config.tiles', /with tracks/],
    ['negative patience', () => ({ config: { tracks: true, patience: -1 } }), 'config.patience', /at least 0/],
    ['tracks of another type', (media) => ({ media, config: { tracks: 'yes' } }), 'media.type', /expected 'image'$/],
  ])('%s', async (_name, fields, param, message) => {
    const media = (await frames(2)) as { frames: object[] }
    const response = await server.post(PATH, { ...body(media), ...fields(media) })
    const error = await errorOf(response)
    expect(error).toMatchObject({ type: 'invalid_request_error', param })
    expect(error.message).toMatch(message)
    expect(response.status).toBe(400)
    expect(server.engine.works).toEqual([])
  })

  const PICTURE = { type: 'image', image_url: 'https://example.com/x.png' }
})

test('a model that takes no videos follows things in one', async () => {
  const card = await changedCard(({ video: _, ...shipped }) => ({
    ...shipped,
    family: 'lookout',
    serves: shipped.serves.map((one: { modalities: string[] }) => ({ ...one, modalities: ['text', 'image'] })),
  }))
  const still = await startTestServer({ environment: { LOOKOUT_MODEL_CARD: card.path } })
  try {
    show(CROSSING, still)
    expect((await track(await frames(2), {}, still)).detections.map(({ track }) => track)).toEqual([1, 2, 1, 2])
  } finally {
    await still.close()
    await card.remove()
  }
})
