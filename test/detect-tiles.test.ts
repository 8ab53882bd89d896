import sharp from 'sharp'
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import type { EngineEvent, Generation } from '../src/inference/contract/generation.ts'
import type { Branch, Work } from '../src/inference/contract/work.ts'
import { modelOverloaded } from '../src/lib/errors/errors.ts'
import { sumOf } from '../src/lib/sum.ts'
import type { RgbImage } from '../src/media/pixels.ts'
import { changedCard, type TemporaryCard, uncalibratedCard } from './support/changed-card.ts'
import { type BranchScript, FakeEngine } from './support/fake-engine.ts'
import { until } from './support/local-engine.ts'
import { errorOf, jsonOf, startTestServer, type TestServer } from './support/server.ts'

const PATH = '/v1/detect'
const COLOURS = { 'red block': [220, 30, 30], 'blue block': [30, 60, 220] } as const
type Label = keyof typeof COLOURS
const LABELS = Object.keys(COLOURS) as Label[]
/** Gray. */
const BACKGROUND = 240
/** The least tiles of the picture's size: three grids. */
const GRIDS = [[5, 4], [2, 2], [1, 1]] // biome-ignore format: one list
const TILES = 25
const SIZE = { width: 2400, height: 1800 }

type Corners = readonly [left: number, top: number, right: number, bottom: number]
/** Small ones upon the edges of tiles and of the picture, in a row, and two large ones. */
const THINGS: readonly { readonly label: Label; readonly at: Corners }[] = [
  { label: 'red block', at: [0, 0, 50, 60] },
  { label: 'red block', at: [455, 300, 545, 390] },
  { label: 'red block', at: [560, 300, 620, 360] },
  { label: 'red block', at: [2330, 1740, 2400, 1800] },
  { label: 'red block', at: [700, 600, 1300, 1150] },
  { label: 'blue block', at: [440, 440, 500, 520] },
  { label: 'blue block', at: [1700, 200, 1900, 420] },
  { label: 'blue block', at: [1500, 1300, 1560, 1360] },
]

/** An engine that sees: it answers with the boxes of all areas of a label's colour. */
class SeeingEngine extends FakeEngine {
  readonly admitted: Generation[] = []
  /** Runs before each work; what it throws refuses the work. */
  before: (work: Work) => void = () => {}
  /** How it answers the work that comes next. */
  pace: (work: Work) => BranchScript & { readonly delayMs?: number } = () => ({})
  /** What is seen of a label, in place of what is there. */
  seen: (work: Work, label: Label, boxes: readonly Corners[]) => readonly Corners[] = (_work, _label, boxes) => boxes

  override async generate(work: Work, signal: AbortSignal): Promise<Generation> {
    this.before(work)
    const pace = this.pace(work)
    this.script = {
      ...pace,
      branch: (branch) => {
        const label = labelOf(branch)
        const boxes = this.seen(work, label, areasOf(imageOf(work), COLOURS[label]))
        return { ...pace, texts: boxes.map((corners) => written(label, corners)) }
      },
    }
    const generation = await super.generate(work, signal)
    this.admitted.push(generation)
    return { ...generation, events: this.#followed(generation.events) }
  }

  /** Works that have come to their end. */
  finished = 0
  async *#followed(events: AsyncIterable<EngineEvent>): AsyncGenerator<EngineEvent, void, void> {
    try {
      yield* events
    } finally {
      this.finished++
    }
  }
}

function imageOf({ prefix }: Work): RgbImage {
  const last = prefix.at(-1)!
  if (last.type !== 'image') throw new Error('The prefix ends with the picture')
  return last.image
}

function labelOf({ suffix }: Branch): Label {
  const text = suffix.map((part) => (part.type === 'text' ? part.text : '')).join('')
  return LABELS.find((label) => text.includes(label))!
}

const written = (label: Label, [left, top, right, bottom]: Corners) =>
  `<point_box mention="${label}"> (${left},${top}) (${right},${bottom}) </point_box>\n`

/** The areas of a colour, on a grid of 0 to 1000. */
function areasOf({ width, height, data }: RgbImage, [red, green, blue]: readonly [number, number, number]): Corners[] {
  const isOf = new Uint8Array(width * height)
  for (let i = 0; i < isOf.length; i++) {
    if (data[i * 3 + 2] === BACKGROUND) continue
    const [r, g, b] = [data[i * 3]! - red, data[i * 3 + 1]! - green, data[i * 3 + 2]! - blue]
    isOf[i] = Math.abs(r) + Math.abs(g) + Math.abs(b) < 150 ? 1 : 0
  }
  const waiting: number[] = []
  const take = (next: number) => {
    if (isOf[next] === 0) return
    isOf[next] = 0
    waiting.push(next)
  }
  const areas: Corners[] = []
  for (let start = 0; start < isOf.length; start++) {
    if (isOf[start] === 0) continue
    let [left, top, right, bottom] = [width, height, 0, 0]
    take(start)
    while (waiting.length > 0) {
      const i = waiting.pop()!
      const [x, y] = [i % width, Math.floor(i / width)]
      left = Math.min(left, x)
      top = Math.min(top, y)
      right = Math.max(right, x + 1)
      bottom = Math.max(bottom, y + 1)
      if (x > 0) take(i - 1)
      if (x < width - 1) take(i + 1)
      if (y > 0) take(i - width)
      if (y < height - 1) take(i + width)
    }
    const [x, y] = [
      (value: number) => Math.round((value / width) * 1000),
      (value: number) => Math.round((value / height) * 1000),
    ]
    areas.push([x(left), y(top), x(right), y(bottom)])
  }
  return areas
}

async function drawn({ width, height }: { width: number; height: number }, things = THINGS): Promise<string> {
  const rectangles = things.map(
    ({ label, at: [left, top, right, bottom] }) =>
      `<rect x="${left}" y="${top}" width="${right - left}" height="${bottom - top}" fill="rgb(${COLOURS[label].join(',')})"/>`,
  )
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}"><rect width="100%" height="100%" fill="rgb(${BACKGROUND},${BACKGROUND},${BACKGROUND})"/>${rectangles.join('')}</svg>`
  const png = await sharp(Buffer.from(svg)).png().toBuffer()
  return `data:image/png;base64,${png.toString('base64')}`
}

let engine: SeeingEngine
let server: TestServer
let card: TemporaryCard
let url: string
beforeAll(async () => {
  url = await drawn(SIZE)
  engine = new SeeingEngine()
  card = await uncalibratedCard()
  server = await startTestServer({ engine, environment: { LOOKOUT_MODEL_CARD: card.path } })
})
afterAll(async () => {
  await server?.close()
  await card?.remove()
})
beforeEach(() => {
  const fresh = new SeeingEngine()
  ;[engine.before, engine.pace, engine.seen] = [fresh.before, fresh.pace, fresh.seen]
  engine.finished = 0
  for (const list of [engine.works, engine.readWorks, engine.aborts, engine.admitted, engine.measured]) list.length = 0
})

interface Answer {
  detections: {
    mention: Label
    point?: { x: number; y: number }
    point_box?: { top_left: { x: number; y: number }; bottom_right: { x: number; y: number } }
    confidence?: number
    evidence?: { begin: number; read?: number }
  }[]
  categories?: object[]
  confidence?: object
  finish_reason: string
  tiles?: number[][]
  looks?: number
  tiles_left?: number
}

const body = (config: object | null, fields: object = {}) => ({
  media: { type: 'image', image_url: url },
  categories: LABELS,
  ...(config === null ? {} : { config }),
  ...fields,
})
const detect = async (config: object | null, fields: object = {}, from = server) => {
  const answer = await jsonOf<Answer>(await from.post(PATH, body(config, fields)))
  expect(answer).toHaveProperty('detections')
  return answer
}

/** Which things are found, each by a box within a few pixels of its own. */
function found({ detections }: Answer): number[] {
  return detections
    .map(({ mention, point_box: box }) => {
      const corners = [box!.top_left.x, box!.top_left.y, box!.bottom_right.x, box!.bottom_right.y]
      return THINGS.findIndex(
        ({ label, at }) => label === mention && at.every((value, i) => Math.abs(value - corners[i]!) <= 6),
      )
    })
    .sort((one, other) => one - other)
}
const ALL = [...THINGS.keys()]
/** All but the largest thing, which several tiles show beside much else. */
const LOOKS = THINGS.length - 1

test('finds each thing once, however large it is and wherever the tiles are cut, and looks at each again', async () => {
  const answer = await detect({ tiles: 'auto' })
  expect(found(answer)).toEqual(ALL)
  expect(answer).toMatchObject({ finish_reason: 'complete', tiles: GRIDS, looks: LOOKS })
  expect(answer).not.toHaveProperty('tiles_left')
  expect(engine.works).toHaveLength(TILES + LOOKS)
  // A look asks for one label alone.
  expect(engine.works.slice(0, TILES).every(({ branches }) => branches.length === 2)).toBe(true)
  expect(engine.works.slice(TILES).every(({ branches }) => branches.length === 1)).toBe(true)
  // It shows one thing large, so it needs a quarter of a tile's tokens.
  const tokens = engine.works.map((work) => (imageOf(work).width * imageOf(work).height) / 32 ** 2)
  expect(Math.min(...tokens.slice(0, TILES))).toBeGreaterThanOrEqual(160)
  expect(Math.max(...tokens.slice(TILES))).toBeLessThanOrEqual(50)
})

test('categories keep their order, and points are the centres of boxes', async () => {
  const { detections } = await detect({ tiles: [5, 4], output: 'point' }, { categories: ['blue block', 'red block'] })
  expect(detections.map(({ mention }) => mention)).toEqual([
    ...Array(3).fill('blue block'),
    ...Array(5).fill('red block'),
  ])
  expect(detections.every(({ point_box: box }) => box === undefined)).toBe(true)
  expect(Math.abs(detections[0]!.point!.x - 1800)).toBeLessThan(6)
})

test('things have their labels as they were sent, blanks included', async () => {
  const names = [' red  block', 'blue block\n']
  const { detections } = await detect({ tiles: [2, 2], looks: 'none' }, { categories: names })
  expect([...new Set(detections.map(({ mention }) => mention))]).toEqual(names)
})

test.each([
  ['none', 0],
  // All others are whole in a tile of the finest grid.
  ['coarse', 0],
])('looks: %s', async (looks, count) => {
  const answer = await detect({ tiles: 'auto', looks })
  expect(found(answer)).toEqual(ALL)
  expect(answer.looks).toBe(count)
  expect(engine.works).toHaveLength(TILES + count)
})

test('what a second look does not find again is left out', async () => {
  // The model sees a thing that is not there, in tiles alone.
  engine.seen = ({ branches }, label, boxes) =>
    branches.length === 2 && label === 'blue block' ? [...boxes, [400, 400, 500, 500]] : boxes
  const kept = await detect({ tiles: 'auto' })
  expect(found(kept)).toEqual(ALL)
  expect(kept.looks).toBeGreaterThan(ALL.length)
  expect(found(await detect({ tiles: 'auto', looks: 'none' }))).toContain(-1)
})

test('with a fit: where a list may lack something, the model is asked for one thing more', async () => {
  const fitted = await changedCard(({ detection, ...shipped }) => {
    const { thorough: _thorough, ...fit } = detection!
    return { ...shipped, detection: fit }
  })
  const own = new SeeingEngine()
  const other = await startTestServer({ engine: own, environment: { LOOKOUT_MODEL_CARD: fitted.path } })
  try {
    // The model would not name small blue things by itself; where there are any, it would rather go on than end at once.
    own.seen = ({ branches }, label, boxes) =>
      branches.length === 2 && label === 'blue block' ? boxes.filter(([left, , right]) => right - left > 150) : boxes
    const goesOn = (work: Work) => areasOf(imageOf(work), COLOURS['blue block']).length > 0
    own.pace = (work) => ({
      alternatives: (text, before) => (text + before === '' && goesOn(work) ? [{ text: '<', mass: 0.9 }] : []),
    })
    expect(found(await detect({ tiles: 'auto' }, {}, other))).toEqual(ALL)
    expect(found(await detect({ tiles: 'auto', looks: 'coarse' }, {}, other))).not.toEqual(ALL)
  } finally {
    await other.close()
    await fitted.remove()
  }
})

describe('with confidence', () => {
  const isLook = (work: Work) => imageOf(work).width * imageOf(work).height <= 50 * 32 ** 2
  const confidences = ({ detections }: Answer) => detections.map(({ confidence }) => confidence?.toFixed(3))

  test('each thing has that of the look which has found it again, or of the surest tile', async () => {
    // Tiles are less sure of each thing than looks.
    engine.pace = (work) => {
      const end = { text: '', mass: isLook(work) ? 0.1 : 0.4 }
      return { alternatives: (text) => (text === '' ? [] : [end]) }
    }
    const blue = { categories: ['blue block'] }
    const answer = await detect({ tiles: 'auto', confidence: true }, blue)
    expect(confidences(answer)).toEqual(Array(3).fill('0.900'))
    expect(answer.categories).toEqual([{ mention: 'blue block', complete: null }])
    expect(answer.confidence).toEqual({ calibrated: false })
    const least = await detect({ tiles: 'auto', confidence: true, min_confidence: 0.91 }, blue)
    expect(least.detections).toEqual([])
    // A tile that shows several is sure of the second, since the first did not end the list.
    const tilesAlone = await detect({ tiles: 'auto', confidence: true, looks: 'none', evidence: true }, blue)
    expect(new Set(confidences(tilesAlone))).toEqual(new Set(['0.600', '1.000']))
    expect(tilesAlone.detections[0]).toHaveProperty('evidence.begin')
  })

  test.each(['none', 'coarse', 'all'])('the boxes are the same as without, with looks: %s', async (looks) => {
    // Lists that may lack something.
    engine.pace = () => ({ alternatives: (text) => (text === '' ? [{ text: '<', mass: 0.4 }] : []) })
    const { detections, ...rest } = await detect({ tiles: [2, 2], looks })
    expect(detections).not.toEqual([])
    const rated = await detect({ tiles: [2, 2], looks, confidence: true })
    expect(rated.detections.map(({ confidence: _, ...detection }) => detection)).toEqual(detections)
    expect(rated).toMatchObject(rest)
  })

  test('thorough looks ask about each thing', async () => {
    engine.pace = () => ({ alternatives: () => [] })
    const answer = await detect({ tiles: 'auto', confidence: 'thorough', evidence: true })
    expect(found(answer)).toEqual(ALL)
    expect(engine.readWorks).toHaveLength(LOOKS)
    expect(answer.detections.filter(({ evidence }) => evidence!.read !== undefined)).toHaveLength(LOOKS)
  })

  test('an engine without log-probabilities answers 400', async () => {
    engine.pace = () => ({ isUnrated: true })
    const refused = await server.post(PATH, body({ tiles: 'auto', confidence: true }))
    expect([refused.status, (await errorOf(refused)).param]).toEqual([400, 'config.confidence'])
    expect(found(await detect({ tiles: 'auto' }))).toEqual(ALL)
  })
})

test('a picture that is no larger than a tile is searched as without tiles', async () => {
  const small = { media: { type: 'image', image_url: await drawn({ width: 640, height: 480 }) } }
  engine.pace = () => ({ alternatives: () => [] })
  for (const config of [{ output: 'box' }, { output: 'point' }, { confidence: true, evidence: true }]) {
    const { tiles, looks, ...answer } = await detect({ tiles: 'auto', ...config }, small)
    expect({ tiles, looks }).toEqual({ tiles: [[1, 1]], looks: 0 })
    expect(answer).toEqual(await detect(config, small))
    const [own, plain] = engine.works.slice(-2)
    // Vitest compares pixels one by one, which takes seconds.
    expect(Buffer.compare(imageOf(own!).data, imageOf(plain!).data)).toBe(0)
    const withoutPixels = ({ prefix, ...rest }: Work) => ({ ...rest, prefix: prefix.slice(0, -1) })
    expect(withoutPixels(own!)).toEqual(withoutPixels(plain!))
  }
})

test('without the fields a reply has no others, and a header says that the picture is shrunk', async () => {
  const response = await server.post(
    PATH,
    body(null, { media: { type: 'image', image_url: await drawn({ width: 4000, height: 3000 }) } }),
  )
  expect(Object.keys(await jsonOf(response))).toEqual(['detections', 'finish_reason'])
  const note = response.headers.get('x-lookout-note')
  expect(note).toMatch(/^The model sees the picture shrunk 7\.8 times .*; tiles show it more/)
  expect(server.logs.some((line) => line.includes(note!) && line.includes('"level":30'))).toBe(true)
  const small = { media: { type: 'image', image_url: await drawn({ width: 1600, height: 1200 }) } }
  expect((await server.post(PATH, body(null, small))).headers.has('x-lookout-note')).toBe(false)
  expect((await server.post(PATH, body({ tiles: 'auto' }))).headers.has('x-lookout-note')).toBe(false)
})

test('exemplars are shown with each tile', async () => {
  const box = { top_left: { x: 0, y: 0 }, bottom_right: { x: 50, y: 60 } }
  const exemplar = { media: { type: 'image', image_url: url }, annotations: [{ mention: 'red block', point_box: box }] }
  const thoughtless = await changedCard((shipped) => ({
    ...shipped,
    thought: { ...shipped.thought, exemplars: false },
  }))
  const own = new SeeingEngine()
  const other = await startTestServer({ engine: own, environment: { LOOKOUT_MODEL_CARD: thoughtless.path } })
  try {
    const answer = await detect({ tiles: 'auto' }, { exemplars: [exemplar], categories: null }, other)
    expect(found(answer)).toEqual(ALL.filter((index) => THINGS[index]!.label === 'red block'))
    for (const { prefix } of own.works) expect(prefix.filter(({ type }) => type === 'image')).toHaveLength(2)
  } finally {
    await other.close()
    await thoughtless.remove()
  }
})

test.each<[string, object, string, RegExp]>([
  ['an explicit grid', { tiles: [20, 20] }, 'config.tiles', /at most 128 are possible, as with \[10, 10\]/],
  [
    'small things',
    { tiles: 'auto', smallest: 5 },
    'config.smallest',
    /2400 x 1800 pixels .* at most 128 are possible, as with \[11, 9\]/,
  ],
  ['another word', { tiles: 'all' }, 'config.tiles', /expected 'auto' or array, received string$/],
  ['one number', { tiles: [4] }, 'config.tiles', /expected/],
  ['no columns', { tiles: [0, 4] }, 'config.tiles[0]', /at least 1/],
  ['smallest without tiles', { smallest: 40 }, 'config.smallest', /only together with tiles/],
  ['smallest with a grid', { tiles: [2, 2], smallest: 40 }, 'config.smallest', /only together with tiles/],
  ['looks without tiles', { looks: 'all' }, 'config.looks', /only together with tiles/],
  ['other looks', { tiles: 'auto', looks: 'some' }, 'config.looks', /'none', 'coarse', 'all'/],
])('rejected, before the engine has any work: %s', async (_name, config, param, message) => {
  for (const path of [PATH, `${PATH}/input_tokens`]) {
    const response = await server.post(path, body(config))
    const error = await errorOf(response)
    expect(error).toMatchObject({ type: 'invalid_request_error', param })
    expect(error.message).toMatch(message)
    expect(response.status).toBe(400)
  }
  expect(engine.works).toEqual([])
})

test('the grid that an error names is accepted', async () => {
  expect((await detect({ tiles: [10, 10], looks: 'none' })).tiles![0]).toEqual([10, 10])
})

test('a damaged picture and a model without boxes: 400', async () => {
  const damaged = url.slice(0, url.length / 2)
  const response = await server.post(PATH, body({ tiles: 'auto' }, { media: { type: 'image', image_url: damaged } }))
  expect(await errorOf(response)).toMatchObject({ param: 'media.image_url' })
  expect(response.status).toBe(400)
  const card = await changedCard((shipped) => ({
    ...shipped,
    serves: shipped.serves.map((served) => ({ ...served, outputFormats: ['text', 'point'] })),
  }))
  const pointing = await startTestServer({ environment: { LOOKOUT_MODEL_CARD: card.path } })
  try {
    const refused = await pointing.post(PATH, body({ tiles: 'auto', output: 'point' }))
    expect(await errorOf(refused)).toMatchObject({ param: 'config.tiles' })
    expect(refused.status).toBe(400)
  } finally {
    await pointing.close()
    await card.remove()
  }
})

test('a queue that is full later makes tiles wait; one that is full at first makes the request fail', async () => {
  let refused = 0
  engine.before = () => {
    if (engine.admitted.length === 0 || refused >= 5) return
    refused++
    throw modelOverloaded('The model is overloaded. Try again in 1 second.', 1)
  }
  expect(found(await detect({ tiles: 'auto' }))).toEqual(ALL)
  expect(refused).toBe(5)
  engine.before = () => {
    throw modelOverloaded('The model is overloaded. Try again in 1 second.', 1)
  }
  expect((await server.post(PATH, body({ tiles: 'auto' }))).status).toBe(503)
})

/** An answer that never begins. */
const STUCK = { endless: true, delayMs: 3_600_000 } as const
/** The coarse grids are searched first, so the last tiles are those of the lowest row. */
const withoutLast = (work: Work) => (engine.works.length >= TILES - 4 && work.branches.length === 2 ? STUCK : {})

test('at the time limit: what is found so far, and how many tiles are left', async () => {
  engine.pace = withoutLast
  vi.useFakeTimers({ toFake: ['setTimeout'] })
  try {
    const answer = detect({ tiles: 'auto' })
    while (engine.works.length < TILES || engine.finished < TILES - 4) await new Promise(setImmediate)
    vi.advanceTimersByTime(120_000)
    const cut = await answer
    expect(cut).toMatchObject({ finish_reason: 'length', tiles: GRIDS, looks: 0, tiles_left: 4 })
    expect(found(cut)).toEqual(ALL.filter((index) => index !== 3))
  } finally {
    vi.useRealTimers()
  }
})

test('a client that leaves frees the engine, and no further tile is searched', async () => {
  const leave = new AbortController()
  engine.pace = () => STUCK
  const answer = fetch(server.url + PATH, {
    method: 'POST',
    headers: { authorization: 'Bearer test-key', 'content-type': 'application/json' },
    body: JSON.stringify(body({ tiles: 'auto' })),
    signal: leave.signal,
  })
  await until(() => engine.works.length === 16)
  leave.abort()
  await expect(answer).rejects.toThrow()
  await until(() => engine.aborts.length === 16)
  expect(engine.works).toHaveLength(16)
})

interface Price {
  object: string
  input_tokens: number
  input_tokens_details: { cached_tokens: number; image_tokens: number }
  tiles?: number[][]
  looks: number
  look_tokens: number
  estimated: boolean
}
const price = async (config: object | null) => jsonOf<Price>(await server.post(`${PATH}/input_tokens`, body(config)))
const counted = (generations: readonly Generation[]) =>
  sumOf(
    generations.flatMap(({ prompts }) => prompts),
    ({ promptTokens }) => promptTokens,
  )

test('the price equals what is then counted', async () => {
  for (const config of [null, { tiles: 'auto', looks: 'none' }, { tiles: [2, 3] }]) {
    const told = await price(config)
    expect(engine.works).toEqual([])
    const answer = await detect(config)
    expect(told.tiles).toEqual(answer.tiles)
    const looks = answer.looks ?? 0
    expect(told.input_tokens).toBe(counted(engine.admitted.slice(0, engine.admitted.length - looks)))
    expect(told.looks).toBeGreaterThanOrEqual(looks)
    const looked = counted(engine.admitted.slice(engine.admitted.length - looks))
    expect(looked).toBeLessThanOrEqual(looks * told.look_tokens)
    expect(told).toMatchObject({ object: 'detect.input_tokens', estimated: false })
    engine.finished = 0
    for (const list of [engine.works, engine.admitted]) list.length = 0
  }
})
