import { readFile } from 'node:fs/promises'
import sharp from 'sharp'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { matchBoxes } from '../../src/exports/box-matching.ts'
import { parseMarkup } from '../../src/grounding/markup-parser.ts'
import { crowdedPicture, SHAPES } from '../support/drawn-shapes.ts'
import type { TestServer } from '../support/server.ts'
import { startShippedServer } from '../support/shipped-model.ts'

/** What the shipped model finds, and where. */
let server: TestServer
let png: Buffer

beforeAll(async () => {
  png = await readFile('docs/pictures/shapes.png')
  server = await startShippedServer()
})
afterAll(() => server?.close())

type Corners = [left: number, top: number, right: number, bottom: number]
type Pixel = { x: number; y: number }
interface Answer {
  confidence?: object
  detections: {
    mention: string
    point?: Pixel
    point_box?: { top_left: Pixel; bottom_right: Pixel }
    confidence?: number
    evidence?: { rank: number; list_length: number; read?: number }
  }[]
  categories?: { mention: string; complete: number }[]
  finish_reason: string
}

/** The shapes in docs/pictures/shapes.svg. */
const TRUTH: Readonly<Record<string, Corners>> = {
  'red circle': [44, 40, 148, 144],
  'blue star': [191, 34, 321, 156],
  'green triangle': [358, 60, 474, 160],
  'purple heart': [352, 232, 464, 330],
}

async function post(path: string, body: object): Promise<unknown> {
  const response = await server.post(path, body)
  const json = await response.json()
  expect(json).not.toHaveProperty('error')
  return json
}

const media = (bytes: Buffer, type = 'png') => ({
  type: 'image',
  image_url: `data:image/${type};base64,${bytes.toString('base64')}`,
})
const detect = (fields: object) => post('/v1/detect', { media: media(png), ...fields }) as Promise<Answer>

function cornersOf({ point_box: box }: Answer['detections'][number]): Corners {
  return [box!.top_left.x, box!.top_left.y, box!.bottom_right.x, box!.bottom_right.y]
}

function overlap(a: Corners, b: Corners): number {
  const width = Math.min(a[2], b[2]) - Math.max(a[0], b[0])
  const height = Math.min(a[3], b[3]) - Math.max(a[1], b[1])
  const common = Math.max(0, width) * Math.max(0, height)
  const area = ([left, top, right, bottom]: Corners) => (right - left) * (bottom - top)
  return common / (area(a) + area(b) - common)
}

describe('detect', () => {
  test('finds the categories at their places', async () => {
    const categories = ['red circle', 'blue star', 'purple heart', 'black cross']
    const { detections, finish_reason } = await detect({ categories })
    expect(finish_reason).toBe('complete')
    expect(detections.map(({ mention }) => mention).sort()).toEqual(['blue star', 'purple heart', 'red circle'])
    for (const found of detections) expect(overlap(cornersOf(found), TRUTH[found.mention]!)).toBeGreaterThan(0.6)
  })

  test('finds all objects but one at most', async () => {
    const { detections } = await detect({})
    const drawn = [...Object.keys(TRUTH), 'orange square', 'orange square']
    expect(detections.length).toBeGreaterThan(4)
    for (const found of detections) {
      expect(drawn).toContain(found.mention)
      drawn.splice(drawn.indexOf(found.mention), 1)
      const truth = TRUTH[found.mention]
      if (truth) expect(overlap(cornersOf(found), truth)).toBeGreaterThan(0.6)
    }
  })

  test('points to it', async () => {
    const { detections } = await detect({ categories: ['heart'], config: { output: 'point' } })
    expect(detections).toHaveLength(1)
    const { x, y } = detections[0]!.point!
    const [left, top, right, bottom] = TRUTH['purple heart']!
    expect(x > left && x < right && y > top && y < bottom).toBe(true)
  })

  test('names only the categories, even meaningless ones', async () => {
    const categories = ['sphinx of black quartz', '猫', '"><point_box mention="']
    const { detections } = await detect({ categories })
    for (const { mention } of detections) expect(categories).toContain(mention)
  })

  test('is sure of what is there, also where the category is a kind', async () => {
    const categories = ['red circle', 'star', 'heart', 'black cross']
    const plain = await detect({ categories, config: { confidence: true } })
    expect(plain.detections).toHaveLength(3)
    for (const { confidence } of plain.detections) expect(confidence).toBeGreaterThan(0.5)
    for (const { complete } of plain.categories!) expect(complete).toBeGreaterThan(0.5)
    const thorough = await detect({ categories, config: { confidence: 'thorough', evidence: true, min_confidence: 0 } })
    const listed = thorough.detections.filter(({ evidence }) => evidence!.rank <= evidence!.list_length)
    expect(listed.map(cornersOf)).toEqual(plain.detections.map(cornersOf))
    for (const { confidence, evidence } of listed) {
      expect(confidence).toBeGreaterThan(0.5)
      expect(evidence!.read).toBeGreaterThan(0.5)
    }
  })

  test('uses exemplars', async () => {
    const [left, top, right, bottom] = TRUTH['red circle']!
    const point_box = { top_left: { x: left, y: top }, bottom_right: { x: right, y: bottom } }
    const { detections } = await detect({
      exemplars: [{ media: media(png), annotations: [{ mention: 'red circle', point_box }] }],
    })
    expect(overlap(cornersOf(detections[0]!), TRUTH['red circle']!)).toBeGreaterThan(0.6)
  })

  test('finds what is small in a large picture, tile by tile', async () => {
    const create = { width: 4000, height: 3000, channels: 3, background: '#ffffff' } as const
    const [left, top] = [1700, 900]
    const large = await sharp({ create })
      .composite([{ input: png, left, top }])
      .png()
      .toBuffer()
    const categories = Object.keys(TRUTH)
    const { detections } = await detect({ media: media(large), categories, config: { tiles: 'auto' } })
    expect(detections.map(({ mention }) => mention).sort()).toEqual(categories.sort())
    for (const found of detections) {
      const moved = TRUTH[found.mention]!.map((value, index) => value + (index % 2 === 0 ? left : top))
      expect(overlap(cornersOf(found), moved as Corners)).toBeGreaterThan(0.6)
    }
  })

  test.each([1, 2, 3, 4, 5, 6, 7, 8])('uses pixels of the upright image, EXIF orientation %i', async (orientation) => {
    const bytes = await stored(png, orientation)
    const { autoOrient } = await sharp(bytes).metadata()
    expect(autoOrient).toEqual({ width: 512, height: 384 })
    const { detections } = await detect({ media: media(bytes, 'jpeg'), categories: ['red circle'] })
    expect(detections).toHaveLength(1)
    expect(overlap(cornersOf(detections[0]!), TRUTH['red circle']!)).toBeGreaterThan(0.6)
  })
})

test('confidence says how often boxes are right, on pictures that it was not fitted to', async () => {
  const errors: number[] = []
  for (let seed = 0; seed < 60; seed++) {
    const { url, boxes } = await crowdedPicture(seed)
    const body = {
      media: { type: 'image', image_url: url },
      categories: Object.keys(SHAPES),
      config: { confidence: true },
    }
    const { detections, confidence } = await detect(body)
    expect(confidence).toEqual({ calibrated: true })
    const found = detections.map((one) => {
      const [left, top, right, bottom] = cornersOf(one)
      return { label: one.mention, left, top, right, bottom }
    })
    const right = new Set(matchBoxes(boxes, found, 0.5).pairs.map((pair) => pair.found))
    for (const [i, one] of detections.entries()) errors.push((one.confidence! - Number(right.has(i))) ** 2)
  }
  expect(errors.length).toBeGreaterThan(300)
  // Without the fit, it is 0.058.
  expect(errors.reduce((sum, error) => sum + error, 0) / errors.length).toBeLessThanOrEqual(0.05)
})

/** The image as a camera stores it when held in this orientation. */
async function stored(upright: Buffer, orientation: number): Promise<Buffer> {
  const turned = {
    1: () => sharp(upright),
    2: () => sharp(upright).flop(),
    3: () => sharp(upright).rotate(180),
    4: () => sharp(upright).flip(),
    5: async () => sharp(await sharp(upright).rotate(90).png().toBuffer()).flop(),
    6: () => sharp(upright).rotate(270),
    7: async () => sharp(await sharp(upright).rotate(270).png().toBuffer()).flop(),
    8: () => sharp(upright).rotate(90),
  }[orientation]!
  const pixels = await (await turned()).png().toBuffer()
  return sharp(pixels).withMetadata({ orientation }).jpeg({ quality: 95 }).toBuffer()
}

describe('annotations in a chat', () => {
  const content = (text: string, count = 1) => [
    ...Array.from({ length: count }, () => ({ type: 'image_url', image_url: { url: media(png).image_url } })),
    { type: 'text', text },
  ]
  interface Completion {
    choices: { message: { content: string }; finish_reason: string }[]
  }
  const chat = async (fields: object, text = 'Detect all objects.', count = 1) => {
    const messages = [{ role: 'user', content: content(text, count) }]
    const completion = (await post('/v1/chat/completions', {
      model: 'service-mk1.5',
      messages,
      ...fields,
    })) as Completion
    return { text: completion.choices[0]!.message.content, finish: completion.choices[0]!.finish_reason }
  }
  const box = { vision_config: { annotation_format: 'box' } }

  test('are complete wherever the reply is truncated', async () => {
    const whole = await chat(box)
    expect(whole.finish).toBe('stop')
    for (const max_completion_tokens of [0, 1, 5, 12, 20, 30, 45, 60]) {
      const { text, finish } = await chat({ ...box, max_completion_tokens })
      expect(finish).toBe('length')
      expect(whole.text.startsWith(text)).toBe(true)
      expect(() => parseMarkup(text)).not.toThrow()
      expect(text).not.toMatch(/<[^>]*$|<point_box[^>]*>[^<]*$/)
    }
  })

  test('are well formed for any text of the model', async () => {
    for (let i = 0; i < 12; i++) {
      const formats = ['box', 'point'] as const
      const fields = {
        vision_config: { annotation_format: formats[i % 2] },
        temperature: 1.5,
        max_completion_tokens: 80,
      }
      const { text } = await chat(fields, 'Detect: red circle, star, square', 1 + (i % 3))
      const kinds = parseMarkup(text).map(({ kind }) => kind)
      expect(
        [
          ['prose', 'point_box'],
          ['prose', 'point'],
        ][i % 2],
      ).toEqual(expect.arrayContaining(kinds))
    }
  })

  test('are well formed for each prompt of a multilook', async () => {
    const body = {
      model: 'service-mk1.5',
      context: [{ role: 'user', content: content('Look.') }],
      prompts: ['Detect: red circle', 'Detect: blue star'],
      max_completion_tokens: 30,
      ...box,
    }
    const { results } = (await post('/v1/chat/completions/multilook', body)) as {
      results: { completions: Completion['choices'] }[]
    }
    for (const { completions } of results) {
      const { message } = completions[0]!
      expect(parseMarkup(message.content).some(({ kind }) => kind === 'point_box')).toBe(true)
    }
  })
})

describe('several pictures', () => {
  const COLOURS = { red: '#dc2626', green: '#16a34a', blue: '#2563eb', yellow: '#facc15' }
  type Colour = keyof typeof COLOURS
  /** A square of this colour on the left, and a circle on the right. */
  const drawn = async (square: Colour, circle: Colour) => {
    const svg = `<svg xmlns="http://www.w3.org/2000/svg" width="640" height="448"><rect width="640" height="448" fill="#f1f5f9"/><rect x="80" y="120" width="110" height="110" fill="${COLOURS[square]}"/><circle cx="460" cy="260" r="60" fill="${COLOURS[circle]}"/></svg>`
    const bytes = await sharp(Buffer.from(svg)).png().toBuffer()
    return { type: 'image_url', image_url: { url: `data:image/png;base64,${bytes.toString('base64')}` } }
  }
  const ask = async (messages: object[], fields: object = { vision_config: { annotation_format: 'box' } }) => {
    const body = { model: 'service-mk1.5', messages, ...fields }
    const { choices } = (await post('/v1/chat/completions', body)) as { choices: [{ message: { content: string } }] }
    return choices[0].message.content
  }
  const indices = (content: string) => parseMarkup(content).flatMap((one) => ('assetIdx' in one ? [one.assetIdx] : []))
  const find = (what: string) => ({ type: 'text', text: `Find the ${what}.` })

  test('names the picture that each object is in', async () => {
    const [first, second, third] = [
      await drawn('red', 'blue'),
      await drawn('blue', 'green'),
      await drawn('green', 'red'),
    ]
    const pictures = [first, second, third]
    for (const [what, index] of [
      ['blue square', 1],
      ['green square', 2],
      ['blue circle', 0],
    ] as const) {
      expect(indices(await ask([{ role: 'user', content: [...pictures, find(what)] }])), what).toEqual([index])
    }
    const turns = (what: string) => [
      { role: 'user', content: [first, find('red square')] },
      { role: 'assistant', content: '<point_box mention="red square"> (125,268) (297,513) </point_box>' },
      { role: 'user', content: [second, find(what)] },
    ]
    expect(indices(await ask(turns('blue square')))).toEqual([1])
    expect(indices(await ask(turns('blue circle')))).toEqual([0])
    const point = { vision_config: { annotation_format: 'point' } }
    expect(indices(await ask([{ role: 'user', content: [first, second, find('green circle')] }], point))).toEqual([1])
  })
})
