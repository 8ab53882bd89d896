import { readFile } from 'node:fs/promises'
import sharp from 'sharp'
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { detectResponse } from '../src/api/native/wire/detect.ts'
import type { Leaf } from '../src/grounding/annotation.ts'
import { DIALECTS, type DialectName } from '../src/grounding/dialects/dialects.ts'
import { cannotRead } from '../src/inference/contract/cannot-read.ts'
import { changedCard, type TemporaryCard, uncalibratedCard } from './support/changed-card.ts'
import { errorOf, jsonOf, startTestServer, type TestServer } from './support/server.ts'

const PATH = '/v1/detect'
/** In tokens: what stands before the coordinates, their digits, and what stands between them. */
const box = (mention: string, ...[left, top, right, bottom]: number[]) => [
  `<point_box mention="${mention}">`,
  ...` (${left},${top}) (${right},${bottom}) </point_box>`.split(/(?=\D)|(?<=\D)/),
]
const near = (value: number) => expect.closeTo(value, 6)

let server: TestServer
let card: TemporaryCard
/** 512 x 384. */
let picture: string

beforeAll(async () => {
  picture = `data:image/png;base64,${(await readFile('docs/pictures/shapes.png')).toString('base64')}`
  card = await uncalibratedCard()
  server = await startTestServer({ environment: { LOOKOUT_MODEL_CARD: card.path } })
})
afterAll(async () => {
  await server?.close()
  await card?.remove()
})
beforeEach(() => {
  server.engine.script = { texts: ['None.'], alternatives: () => [] }
  server.engine.works.length = 0
  server.engine.readWorks.length = 0
})

interface Answer {
  detections: { mention: string; confidence?: number; evidence?: object }[]
  categories?: { mention: string | null; complete: number | null; evidence?: object }[]
  confidence?: { calibrated: boolean }
  finish_reason: string
}

const body = (config: object | undefined, fields: object = {}) => ({
  media: { type: 'image', image_url: picture },
  ...(config === undefined ? {} : { config }),
  ...fields,
})

async function detect(config: object | undefined, fields: object = {}): Promise<Answer> {
  const answer = await jsonOf<Answer>(await server.post(PATH, body(config, fields)))
  return detectResponse.parse(answer)
}

/** Another object is a quarter as likely as the end, and the end is a fifth as likely as the second object. */
function twoCats(): void {
  server.engine.script = {
    texts: [...box('cat', 100, 200, 500, 600), '\n', ...box('cat', 100, 260, 500, 600)],
    alternatives: (text, before) => {
      if (text === '') return [{ text: '\n', mass: 0.2 }]
      if (text === '\n') return [{ text: '', mass: 1 / 6 }]
      // The first digit of the first number of the first box: 400 and 49 are far from 100.
      if (before.endsWith(' (') && before.length < 40) return [{ text: '4', mass: 0.1 }]
      return []
    },
  }
}

describe('confidence', () => {
  test('how likely each box is to be right, and each category to be complete', async () => {
    twoCats()
    const answer = await detect({ confidence: true, evidence: true }, { categories: ['cat'] })
    const place = { mean: expect.any(Number), overlap: near(0.85), list_length: 2 }
    expect(answer).toEqual({
      detections: [
        {
          mention: 'cat',
          point_box: { top_left: { x: 51, y: 77 }, bottom_right: { x: 256, y: 230 } },
          confidence: near(1 - 0.1 / 4),
          evidence: { ...place, begin: 1, near: near(1 - 0.1 / 4), size: near(0.4), rank: 1 },
        },
        {
          mention: 'cat',
          point_box: { top_left: { x: 51, y: 100 }, bottom_right: { x: 256, y: 230 } },
          confidence: near(5 / 6),
          evidence: { ...place, begin: near(5 / 6), near: 1, mean: 1, size: near(Math.sqrt(0.4 * 0.34)), rank: 2 },
        },
      ],
      categories: [{ mention: 'cat', complete: near(0.8), evidence: { more: near(0.2) } }],
      confidence: { calibrated: false },
      finish_reason: 'complete',
    })
  })

  test('shows nothing of how it was computed unless that is asked for', async () => {
    twoCats()
    const { detections, categories } = await detect({ confidence: true }, { categories: ['cat'] })
    expect(Object.keys(detections[0]!)).toEqual(['mention', 'point_box', 'confidence'])
    expect(categories).toEqual([{ mention: 'cat', complete: near(0.8) }])
  })

  test('min_confidence leaves out what has less, and nothing else', async () => {
    for (const [least, count] of [
      [0, 2],
      [0.8333, 2],
      [0.8334, 1],
      [0.975, 1],
      [0.9751, 0],
      [1, 0],
    ] as const) {
      twoCats()
      const { detections, categories } = await detect(
        { confidence: true, min_confidence: least },
        { categories: ['cat'] },
      )
      expect(detections, String(least)).toHaveLength(count)
      expect(categories).toHaveLength(1)
    }
  })

  test('every object, and points', async () => {
    server.engine.script = { texts: box('tree', 10, 20, 30, 40), alternatives: () => [] }
    const all = await detect({ confidence: true })
    expect(all.detections).toMatchObject([{ mention: 'tree', confidence: 1 }])
    expect(all.categories).toEqual([{ mention: null, complete: 1 }])

    const texts = ['<point mention="cat"> (', '1', '0', '0', ',', '200) </point>']
    server.engine.script = { texts, alternatives: (text) => (text === '1' ? [{ text: '4', mass: 0.5 }] : []) }
    const { detections } = await detect({ confidence: true, output: 'point' }, { categories: ['cat'] })
    expect(detections).toEqual([{ mention: 'cat', point: { x: 51, y: 77 }, confidence: near(0.75) }])
  })

  test('a category without a find, one that was cut off, and labels that share a branch', async () => {
    server.engine.script = {
      texts: ['None.'],
      alternatives: (text) => (text === 'None.' ? [{ text: '<', mass: 0.3 }] : []),
      branch: (_, index) => (index === 1 ? { reason: 'length', texts: box('dog', 1, 2, 3, 4) } : {}),
    }
    const cut = await detect({ confidence: true }, { categories: ['cat', 'dog'] })
    expect(cut.categories).toEqual([
      { mention: 'cat', complete: near(0.7) },
      { mention: 'dog', complete: 0 },
    ])
    expect(cut.finish_reason).toBe('length')

    server.engine.script = { texts: ['None.'], alternatives: () => [] }
    const categories = Array.from({ length: 30 }, (_, index) => `thing ${index}`)
    const many = await detect({ confidence: true }, { categories })
    expect(many.categories!.map(({ mention }) => mention)).toEqual(categories)
  })

  test('a thought is no evidence, and neither is one about an exemplar', async () => {
    twoCats()
    const { texts, alternatives } = server.engine.script
    server.engine.script = {
      texts: ['Is it (1', '</think>', '\n\n', ...(texts as string[])],
      alternatives: (text, before) =>
        before.includes('</think>\n\n') ? alternatives!(text, before.split('\n\n')[1]!) : [{ text: '', mass: 0.5 }],
    }
    const media = { type: 'image', image_url: picture }
    const exemplars = [{ media, annotations: [{ mention: 'cat', point: { x: 5, y: 5 } }] }]
    for (const answer of [
      await detect({ confidence: true, enable_thinking: true }, { categories: ['cat'] }),
      await detect({ confidence: true }, { exemplars }),
    ]) {
      expect(answer.detections.map(({ confidence }) => confidence)).toEqual([near(0.975), near(5 / 6)])
      expect(answer.categories).toEqual([{ mention: 'cat', complete: near(0.8) }])
    }
  })

  test('an engine that does not tell how sure the end was', async () => {
    server.engine.script = { texts: box('cat', 1, 2, 3, 4), alternatives: () => [], tellsEnd: false }
    const { detections, categories } = await detect({ confidence: true }, { categories: ['cat'] })
    expect(detections).toMatchObject([{ confidence: 1 }])
    expect(categories).toEqual([{ mention: 'cat', complete: null }])
  })
})

test('points that a model gives in place of boxes cannot be matched across tiles', async () => {
  server.engine.script = { texts: ['<point mention="cat"> (310,300) </point>\n', ...box('cat', 100, 200, 500, 600)] }
  // Found in the left tile, in the right one and in the whole picture.
  const bytes = await sharp({ create: { width: 1600, height: 800, channels: 3, background: '#888' } })
    .png()
    .toBuffer()
  const media = { type: 'image', image_url: `data:image/png;base64,${bytes.toString('base64')}` }
  for (const confidence of [undefined, true]) {
    const config = { tiles: [2, 1], looks: 'none', confidence }
    const { detections } = await detect(config, { media, categories: ['cat'] })
    expect(detections.map(({ mention }) => mention)).toEqual(['cat', 'cat', 'cat'])
    expect(detections.every((one) => 'point_box' in one)).toBe(true)
  }
})

describe('in every dialect', () => {
  const SCENE = { assets: 1, timed: false, image: { width: 512, height: 384 } }
  const leaf = (kind: 'box' | 'point', ...corners: [x: number, y: number][]): Leaf => ({
    ...{ kind: kind === 'box' ? 'point_box' : 'point', mention: 'cat' },
    points: corners.map(([x, y]) => ({ x, y })),
  })
  const kinds = {
    box: [leaf('box', [100, 200], [500, 600]), leaf('box', [600, 250], [900, 700])],
    point: [leaf('point', [300, 400]), leaf('point', [700, 500])],
  }

  test.each(Object.keys(DIALECTS) as DialectName[])('%s: what is likely beside a coordinate shows', async (dialect) => {
    const { detection, formats } = DIALECTS[dialect]
    const outputs = (['box', 'point'] as const).filter((one) => formats.includes(one))
    const other = await changedCard(({ decision: _decision, detection: _detection, namesAssets: _names, ...card }) => ({
      ...card,
      dialect,
      serves: card.serves.map((served) => ({ ...served, outputFormats: outputs })),
    }))
    const models = await startTestServer({ environment: { LOOKOUT_MODEL_CARD: other.path } })
    try {
      for (const kind of outputs) {
        const written = detection.answer(kinds[kind], SCENE)
        const [, second] = [...written.matchAll(detection.form(kind, SCENE).object)]
        const [[from]] = second!.indices!.slice(1) as [[number, number]]
        // The second object may as well begin far away.
        const another = [{ text: '9', mass: 0.25 }]
        models.engine.script = {
          texts: [...written],
          alternatives: (_text, before) => (before.length === from ? another : []),
        }
        const config = { confidence: true, evidence: true, output: kind }
        const response = await models.post(PATH, body(config, { categories: ['cat'] }))
        expect(response.status, await response.clone().text()).toBe(200)
        const { detections, confidence } = await jsonOf<Answer>(response)
        const [sure, unsure] = detections.map(({ evidence }) => evidence as { near: number; mean: number })
        expect(detections).toHaveLength(2)
        expect(sure).toMatchObject({ near: near(1), mean: near(1) })
        expect(unsure!.near, written).toBeLessThan(1)
        expect(unsure!.mean, written).toBeLessThan(1)
        expect(detections[0]!.confidence).toBeGreaterThan(detections[1]!.confidence!)
        expect(confidence).toEqual({ calibrated: false })
      }
    } finally {
      await models.close()
      await other.remove()
    }
  })
})

describe('thorough', () => {
  /** The list has one cat; what the model would have given next is another one, and reads say yes and no. */
  const oneCatMore = (further = box('cat', 600, 200, 900, 600)): void => {
    server.engine.script = {
      branch: ({ constraint }) => {
        // A pattern of exactly one object, behind the list.
        const isFurther = constraint?.type === 'regex' && constraint.pattern.startsWith('\\n')
        return isFurther ? { texts: ['\n', ...further] } : { texts: box('cat', 100, 200, 500, 600) }
      },
      alternatives: (text) => (text === '' ? [{ text: '\n', mass: 0.2 }] : []),
      read: ({ replies }, index) => replies.map(() => Math.log((index === 0 ? 0.8 : 0.1) / replies.length)),
    }
  }

  test('one object more, and a read of each', async () => {
    oneCatMore()
    const answer = await detect({ confidence: 'thorough', evidence: true }, { categories: ['cat'] })
    const common = { near: 1, mean: 1, overlap: 0, list_length: 1 }
    expect(answer.detections).toMatchObject([
      { mention: 'cat', confidence: 1, evidence: { ...common, begin: 1, rank: 1, read: near(0.8) } },
      { mention: 'cat', confidence: near(0.2), evidence: { ...common, begin: near(0.2), rank: 2, read: near(0.1) } },
    ])
    expect(answer.categories).toEqual([{ mention: 'cat', complete: near(0.8), evidence: { more: near(0.2) } }])
    expect(answer.finish_reason).toBe('complete')

    const [list, further] = server.engine.works
    expect(further!.prefix).toEqual(list!.prefix)
    expect(further!.branches[0]!.suffix.at(-1)).toEqual({
      type: 'text',
      text: box('cat', 100, 200, 500, 600).join(''),
      trusted: false,
    })
    // Told to detect, the model would answer with boxes.
    const [read] = server.engine.readWorks
    expect(read!.prefix.at(-1)).toEqual(list!.prefix.at(-1))
    expect([list!, read!].map(({ prefix }) => JSON.stringify(prefix[0]).includes('<hint>'))).toEqual([true, false])
    const asked = read!.questions.map(({ suffix }) =>
      suffix.map((part) => (part.type === 'text' ? part.text : '')).join(''),
    )
    expect(asked[0]).toContain('What is in the box (100,200) (500,600)?')
    expect(asked[1]).toContain('What is in the box (600,200) (900,600)?')
    expect(read!.questions[0]!.replies).toContain('A cat')
  })

  test('the objects before are as they are without it, and the least confidence is 0.05', async () => {
    oneCatMore()
    const plain = await detect({ confidence: true }, { categories: ['cat'] })
    const thorough = await detect({ confidence: 'thorough', min_confidence: 0 }, { categories: ['cat'] })
    expect(thorough.detections.slice(0, 1)).toEqual(plain.detections)
    expect(thorough.detections).toHaveLength(2)
    server.engine.script = { ...server.engine.script, alternatives: () => [] }
    server.engine.works.length = 0
    const sure = await detect({ confidence: 'thorough' }, { categories: ['cat'] })
    expect(sure.detections).toEqual(plain.detections)
    // Nothing more is written of a list that surely has everything.
    expect(server.engine.works).toHaveLength(1)
  })

  test('what the model names by its colour may have any', async () => {
    const names = ['circle', 'text', 'red circle', 'cat']
    server.engine.script = {
      branch: (_, index) => ({ texts: box(names[index]!, 100, 200, 500, 600) }),
      alternatives: () => [],
      read: ({ replies }) => replies.map(() => Math.log(0.9 / replies.length)),
    }
    await detect({ confidence: 'thorough' }, { categories: names })
    const [circle, text, redCircle, cat] = server.engine.readWorks[0]!.questions.map(({ replies }) => replies)
    expect(circle).toHaveLength(11)
    expect(circle).toEqual(expect.arrayContaining(['A red circle', 'An orange circle']))
    expect(text).toContain('Red text')
    expect(redCircle).toEqual(['A red circle'])
    expect(cat).toContain('A cat')
  })

  test('an object that it has is none more, and a list that was cut off has none', async () => {
    oneCatMore(box('cat', 100, 200, 500, 600))
    expect((await detect({ confidence: 'thorough' }, { categories: ['cat'] })).detections).toHaveLength(1)
    server.engine.works.length = 0
    server.engine.script = { texts: box('cat', 1, 2, 30, 40), reason: 'length', alternatives: () => [] }
    expect((await detect({ confidence: 'thorough' }, { categories: ['cat'] })).detections).toHaveLength(1)
    expect(server.engine.works).toHaveLength(1)
  })

  test('an engine that cannot read: 400 that names the parameter', async () => {
    oneCatMore()
    server.engine.script = { ...server.engine.script, readRefusal: cannotRead() }
    const response = await server.post(PATH, body({ confidence: 'thorough' }, { categories: ['cat'] }))
    expect(response.status).toBe(400)
    expect(await errorOf(response)).toMatchObject({ param: 'config.confidence' })
  })

  test('a time limit leaves what has been found, as sure as in one pass, and shows', async () => {
    const seconds = 77
    const environment = { LOOKOUT_CHAT_SECONDS: String(seconds), LOOKOUT_MODEL_CARD: card.path }
    const hasty = await startTestServer({ environment })
    const timers = vi.spyOn(globalThis, 'setTimeout')
    const timeIsUp = () => {
      for (const [ring, ms] of timers.mock.calls) if (ms === seconds * 1000) (ring as () => void)()
    }
    try {
      oneCatMore()
      const script = server.engine.script
      hasty.engine.script = {
        ...script,
        branch: (branch, index) => {
          const own = script.branch!(branch, index)
          if ((own.texts as string[])[0] !== '\n') return own
          setImmediate(timeIsUp)
          return { ...own, endless: true }
        },
      }
      const answer = await jsonOf<Answer>(
        await hasty.post(PATH, body({ confidence: 'thorough', min_confidence: 0 }, { categories: ['cat'] })),
      )
      expect(answer).toMatchObject({ detections: [{ confidence: 1 }], finish_reason: 'length' })
    } finally {
      timers.mockRestore()
      await hasty.close()
    }
  })
})

describe('without the field', () => {
  test('nothing shows, and the engine is asked for nothing more', async () => {
    twoCats()
    const answer = await detect(undefined, { categories: ['cat'] })
    expect(Object.keys(answer)).toEqual(['detections', 'finish_reason'])
    expect(answer.detections.every((detection) => !('confidence' in detection))).toBe(true)
    expect(server.engine.works[0]!.branches[0]).not.toHaveProperty('topLogProbs')
    for (const config of [{ confidence: false }, { confidence: null, min_confidence: null, evidence: false }]) {
      expect(await detect(config, { categories: ['cat'] })).toEqual(answer)
    }
  })

  test.each([
    [{ min_confidence: 0.5 }, 'config.min_confidence'],
    [{ min_confidence: 0 }, 'config.min_confidence'],
    [{ confidence: false, evidence: true }, 'config.evidence'],
    [{ confidence: true, min_confidence: 1.5 }, 'config.min_confidence'],
    [{ confidence: 'yes' }, 'config.confidence'],
  ])('%o is rejected', async (config, param) => {
    const response = await server.post(PATH, body(config))
    expect(response.status).toBe(400)
    expect(await errorOf(response)).toMatchObject({ type: 'invalid_request_error', param })
  })
})

test('an engine without log-probabilities: 400 that names the parameter', async () => {
  server.engine.script = { texts: box('cat', 1, 2, 3, 4), isUnrated: true }
  const response = await server.post(PATH, body({ confidence: true }))
  expect(response.status).toBe(400)
  expect(await errorOf(response)).toMatchObject({ type: 'invalid_request_error', param: 'config.confidence' })
})
