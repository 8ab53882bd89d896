import { readFile } from 'node:fs/promises'
import sharp from 'sharp'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { parsePattern } from '../src/inference/constraints/regex/anchors.ts'
import { PatternMatcher } from '../src/inference/constraints/regex/matcher.ts'
import type { PromptPart } from '../src/inference/contract/parts.ts'
import { changedCard } from './support/changed-card.ts'
import { FakeEngine } from './support/fake-engine.ts'
import { until } from './support/local-engine.ts'
import { errorOf, jsonOf, startTestServer, type TestServer } from './support/server.ts'

const PATH = '/v1/detect'
const box = (mention: string, ...[left, top, right, bottom]: number[]) =>
  `<point_box mention="${mention}"> (${left},${top}) (${right},${bottom}) </point_box>`

let server: TestServer
/** 512 x 384. */
let picture: string
/** 100 x 50. */
let small: string

beforeAll(async () => {
  picture = `data:image/png;base64,${(await readFile('docs/pictures/shapes.png')).toString('base64')}`
  small = await plain(100, 50)
  server = await startTestServer()
})
afterAll(() => server?.close())
beforeEach(() => {
  server.engine.script = { texts: ['None.'] }
  server.engine.works.length = 0
  server.engine.aborts.length = 0
})

async function plain(width: number, height: number): Promise<string> {
  const bytes = await sharp({ create: { width, height, channels: 3, background: '#3366cc' } })
    .png()
    .toBuffer()
  return `data:image/png;base64,${bytes.toString('base64')}`
}

const media = (url: string) => ({ type: 'image', image_url: url })
const body = (fields: object) => ({ media: media(picture), ...fields })

interface Answer {
  detections: {
    mention: string
    point?: { x: number; y: number }
    point_box?: { top_left: { x: number; y: number }; bottom_right: { x: number; y: number } }
  }[]
  finish_reason: string
}

async function detect(fields: object, from = server): Promise<Answer> {
  const response = await from.post(PATH, body(fields))
  const json = await jsonOf<Answer>(response)
  expect(json).toHaveProperty('detections')
  return json
}

const corners = ({ point_box: found }: Answer['detections'][number]) => [
  found!.top_left.x,
  found!.top_left.y,
  found!.bottom_right.x,
  found!.bottom_right.y,
]

/** The prompt of a branch as text, with images as their sizes. */
function prompt(branch = 0): string {
  const show = (part: PromptPart) => {
    if (part.type === 'text') return part.text
    return part.type === 'image' ? `[${part.image.width}x${part.image.height}]` : `[${part.type}]`
  }
  const { prefix, branches } = server.engine.works.at(-1)!
  return [...prefix, ...branches[branch]!.suffix].map(show).join('')
}

/** Whether the constraint of a branch allows this answer. */
function allows(text: string, branch = 0): boolean {
  const { constraint } = server.engine.works.at(-1)!.branches[branch]!
  if (constraint?.type !== 'regex') throw new Error('The branch has no pattern constraint')
  return new PatternMatcher(parsePattern(constraint.pattern)).test(text)
}

describe('detections', () => {
  test('boxes are in pixels of the image', async () => {
    server.engine.script = { texts: [`${box('cat', 0, 0, 500, 500)}\n`, box('dog', 250, 500, 1000, 1000)] }
    expect(await detect({ categories: ['cat', 'dog'] })).toEqual({
      detections: [
        { mention: 'cat', point_box: { top_left: { x: 0, y: 0 }, bottom_right: { x: 256, y: 192 } } },
        // The index of the last pixel is one less than the side.
        { mention: 'dog', point_box: { top_left: { x: 128, y: 192 }, bottom_right: { x: 511, y: 383 } } },
      ],
      finish_reason: 'complete',
    })
  })

  test('may be empty', async () => {
    expect(await detect({ categories: ['cat'] })).toEqual({ detections: [], finish_reason: 'complete' })
  })

  test('points are requested directly when there is one category', async () => {
    server.engine.script = { texts: ['<point mention="cat"> (500,250) </point>'] }
    expect(await detect({ categories: ['cat', 'cat'], config: { output: 'point' } })).toEqual({
      detections: [{ mention: 'cat', point: { x: 256, y: 96 } }],
      finish_reason: 'complete',
    })
    expect(prompt()).toContain('<hint>POINT</hint>')
    expect(allows('<point mention="cat"> (500,250) </point>')).toBe(true)
    expect(allows(box('cat', 1, 2, 3, 4))).toBe(false)
  })

  test.each([{}, { categories: ['cat', 'dog'] }])('otherwise points are the centres of boxes: %o', async (fields) => {
    server.engine.script = { texts: [box('cat', 0, 0, 500, 1000)] }
    expect((await detect({ ...fields, config: { output: 'point' } })).detections).toEqual([
      { mention: 'cat', point: { x: 128, y: 192 } },
    ])
    expect(prompt()).toContain('<hint>BOX</hint>')
  })

  test('an object that the model names twice is one detection', async () => {
    server.engine.script = {
      texts: [
        `${box('cat', 100, 100, 300, 300)}\n`,
        `${box('cat', 102, 100, 300, 301)}\n`,
        `${box('dog', 100, 100, 300, 300)}\n`,
        box('cat', 100, 100, 300, 200),
      ],
    }
    const { detections } = await detect({})
    expect(detections.map(({ mention }) => mention)).toEqual(['cat', 'dog', 'cat'])
  })

  test('a model that repeats itself is stopped', async () => {
    server.engine.script = { texts: [`${box('cat', 1, 1, 3, 3)}\n`, `${box('cat', 5, 5, 9, 9)}\n`], endless: true }
    const answer = await detect({})
    expect(answer.detections).toHaveLength(2)
    expect(answer.finish_reason).toBe('length')
    await until(() => server.engine.signals.at(-1)!.aborted)
  })

  test('a model that repeats itself in one category is stopped when the others are complete', async () => {
    const dog = { texts: [`${box('dog', 1, 1, 300, 300)}\n`, 'None.'] }
    const cat = { texts: [`${box('cat', 1, 1, 3, 3)}\n`], endless: true }
    server.engine.script = { branch: (_, index) => (index === 0 ? cat : dog) }
    const { detections, finish_reason } = await detect({ categories: ['cat', 'dog'] })
    expect(detections.map(({ mention }) => mention)).toEqual(['cat', 'dog'])
    expect(finish_reason).toBe('length')
    await until(() => server.engine.signals.at(-1)!.aborted)
  })

  test('an engine error in one category fails the request', async () => {
    server.engine.script = {
      branch: (_, index) => (index === 1 ? { texts: [], error: new Error('out of order') } : {}),
    }
    const response = await server.post(PATH, body({ categories: ['cat', 'dog'] }))
    expect(response.status).toBe(500)
    expect(await errorOf(response)).toMatchObject({ type: 'server_error' })
  })

  test('a truncated object is left out', async () => {
    server.engine.script = {
      texts: [`${box('cat', 1, 1, 300, 300)}\n`, '<point_box mention="cat"> (4'],
      reason: 'length',
    }
    const answer = await detect({ categories: ['cat'] })
    expect(answer.detections).toHaveLength(1)
    expect(answer.finish_reason).toBe('length')
  })

  test('labels are returned exactly as sent', async () => {
    const names = ['a "b" & <c>\'', '<|im_end|>', 'naïve 猫 🐈', '(1,2)|.*', '__proto__', 'constructor', ' two  words ']
    const escaped = ['a &quot;b&quot; &amp; &lt;c&gt;&#x27;', '&lt;|im_end|&gt;', ...names.slice(2, -1), 'two words']
    const texts = escaped.map((name, i) => box(name, i, i, 100 * i + 9, 90))
    server.engine.script = { branch: (_, index) => ({ texts: [...texts[index]!] }) }
    const { detections } = await detect({ categories: names })
    expect(detections.map(({ mention }) => mention)).toEqual(names)
    for (const [i, text] of texts.entries()) expect(allows(text, i)).toBe(true)
    const { prefix, branches } = server.engine.works.at(-1)!
    const parts = [...prefix, ...branches.flatMap(({ suffix }) => suffix)]
    for (const { text, trusted } of parts.filter((part) => part.type === 'text')) {
      if (trusted) expect(text).not.toContain('猫')
    }
  })

  test('pixels refer to the upright image, for every EXIF orientation', async () => {
    server.engine.script = { texts: [box('cat', 100, 200, 500, 700)] }
    for (let orientation = 1; orientation <= 8; orientation++) {
      // Stored sideways or not, the upright image has 300 x 200 pixels.
      const [width, height] = orientation >= 5 ? [200, 300] : [300, 200]
      const bytes = await sharp({ create: { width, height, channels: 3, background: '#fff' } })
        .withMetadata({ orientation })
        .jpeg()
        .toBuffer()
      const url = `data:image/jpeg;base64,${bytes.toString('base64')}`
      const { detections } = await detect({ media: media(url), categories: ['cat'] })
      expect(corners(detections[0]!)).toEqual([30, 40, 150, 140])
    }
  })

  test('are never outside the image, however small it is', async () => {
    server.engine.script = { texts: [box('cat', 0, 0, 1000, 1000)] }
    const { detections } = await detect({ media: media(await plain(1, 1)) })
    expect(corners(detections[0]!)).toEqual([0, 0, 0, 0])
  })
})

describe('the prompt', () => {
  test('has a branch with its own constraint for each category, over one image', async () => {
    await detect({ categories: ['red circle', 'heart', 'heart'] })
    const { prefix, branches } = server.engine.works.at(-1)!
    expect(branches).toHaveLength(2)
    expect(prefix.at(-1)).toMatchObject({ type: 'image' })
    expect(prompt(0)).toContain('[512x384]Detect: red circle<|im_end|>')
    expect(prompt(1)).toContain('[512x384]Detect: heart<|im_end|>')
    expect(allows(`${box('heart', 0, 10, 1000, 999)}\n${box('heart', 1, 2, 3, 4)}`, 1)).toBe(true)
    expect(allows(box('heart', 0, 10, 1000, 999), 0)).toBe(false)
    expect(allows('None.', 1)).toBe(true)
    for (const wrong of [
      box('star', 1, 2, 3, 4),
      box('heart', 1, 2, 3, 1001),
      box('heart', 1, 2, 3, 4).slice(0, -1),
      `Sure! ${box('heart', 1, 2, 3, 4)}`,
      '<point_box mention="heart"> (01,2) (3,4) </point_box>',
      '',
    ]) {
      expect(allows(wrong, 1)).toBe(false)
    }
  })

  test('groups many categories', async () => {
    const categories = Array.from({ length: 40 }, (_, i) => `thing ${i}`)
    server.engine.script = { branch: (_, index) => ({ texts: [box(`thing ${3 * index}`, 1, 2, 300, 400)] }) }
    const { detections } = await detect({ categories })
    expect(server.engine.works.at(-1)!.branches).toHaveLength(14)
    expect(prompt(0)).toContain('Detect: thing 0, thing 1, thing 2<|im_end|>')
    expect(prompt(13)).toContain('Detect: thing 39<|im_end|>')
    expect(detections.map(({ mention }) => mention)).toEqual(categories.filter((_, i) => i % 3 === 0))
  })

  test('asks for all objects without targets', async () => {
    await detect({})
    expect(prompt()).toContain('Detect all objects.')
    expect(allows(box('some &amp; any', 1, 2, 3, 4))).toBe(true)
    expect(allows(box('a"b', 1, 2, 3, 4))).toBe(false)
  })

  test('shows exemplars as earlier turns, on the grid of their own image', async () => {
    // The shipped model reasons about exemplars first.
    server.engine.script = { texts: ['A red star.\n</think>\n\n', box('widget', 0, 0, 500, 500)] }
    const annotations = [
      { mention: 'widget', point_box: { top_left: { x: 10, y: 5 }, bottom_right: { x: 100, y: 50 } }, index: 0 },
      { label: 'gadget', point_box: { top_left: { x: 0, y: 0 }, bottom_right: { x: 50, y: 25.5 } }, timestamp: 0 },
    ]
    const answer = await detect({
      exemplars: [{ media: media(small), annotations }],
      negative_exemplars: [{ media: media(small) }],
    })
    expect(answer.detections).toEqual([
      { mention: 'widget', point_box: { top_left: { x: 0, y: 0 }, bottom_right: { x: 256, y: 192 } } },
    ])
    const asked = 'Detect: widget, gadget'
    expect(prompt(1)).toMatch(/Detect: gadget<\|im_end\|>\n<\|im_start\|>assistant\n<think>\n$/)
    expect(prompt(0).replaceAll(/<\|im_start\|>|<\|im_end\|>/g, '')).toBe(
      [
        'system',
        '<hint>BOX</hint>',
        'user',
        `[576x288]${asked}`,
        'assistant',
        box('widget', 100, 100, 1000, 1000),
        box('gadget', 0, 0, 500, 510),
        'user',
        `[576x288]${asked}`,
        'assistant',
        'None.',
        'user',
        '[512x384]Detect: widget',
        'assistant',
        '<think>',
        '',
      ].join('\n'),
    )
    expect(allows(box('gadget', 1, 2, 3, 4), 1)).toBe(true)
    expect(allows(box('widget', 1, 2, 3, 4), 1)).toBe(false)
  })

  test('shows the points of an exemplar with points', async () => {
    await detect({ exemplars: [{ media: media(small), annotations: [{ mention: 'dot', point: { x: 50, y: 10 } }] }] })
    expect(prompt()).toContain('<point mention="dot"> (500,200) </point>')
  })

  test('shows the box of an exemplar with a point in a box', async () => {
    const point_box = { top_left: { x: 0, y: 0 }, bottom_right: { x: 50, y: 25 } }
    await detect({ exemplars: [{ media: media(small), annotations: [{ mention: 'a', point: corner, point_box }] }] })
    expect(prompt()).toContain(box('a', 0, 0, 500, 500))
  })

  test('shows the only category for an exemplar without a mention', async () => {
    await detect({
      categories: ['cat'],
      exemplars: [{ media: media(small), annotations: [{ point: { x: 50, y: 10 } }] }],
    })
    expect(prompt()).toContain('<point mention="cat"> (500,200) </point>')
  })

  test('allows only the categories, when there are any', async () => {
    const annotations = [{ mention: 'kitten', point: { x: 5, y: 5 } }]
    await detect({ categories: ['cat'], exemplars: [{ media: media(small), annotations }] })
    expect(allows(box('cat', 1, 2, 3, 4))).toBe(true)
    expect(allows(box('kitten', 1, 2, 3, 4))).toBe(false)
  })

  test('has names without stray blanks, which the answer has as they were sent', async () => {
    const found = (index: number) => box(['red circle', 'star'][index]!, 1, 2, 300, 400)
    server.engine.script = { branch: (_, index) => ({ texts: [found(index)] }) }
    const categories = [' red\u00a0 circle', '\tstar\n', 'star']
    const mentions = ({ detections }: Answer) => detections.map(({ mention }) => mention)
    const answer = await detect({ categories, config: { confidence: true } })
    expect(server.engine.works.at(-1)!.branches).toHaveLength(2)
    expect(prompt()).toContain('Detect: red circle<|im_end|>')
    expect(mentions(answer)).toEqual(categories.slice(0, 2))
    expect(answer).toMatchObject({ categories: categories.slice(0, 2).map((mention) => ({ mention })) })

    server.engine.script = { branch: (_, index) => ({ texts: ['</think>\n\n', found(index)] }) }
    const shown = [{ mention: 'red  circle' }, { label: ' star' }, { label: 'star' }]
    const annotations = shown.map((name) => ({ ...name, point: corner }))
    expect(mentions(await detect({ exemplars: [{ media: media(small), annotations }] }))).toEqual([
      'red  circle',
      ' star',
    ])
    expect(prompt()).toContain('Detect: red circle, star<|im_end|>')
    expect(prompt()).toContain('<point mention="red circle">')
  })
})

const corner = { x: 1, y: 1 }
const marked = (annotation: object) => ({
  exemplars: [{ media: media(small), annotations: [{ mention: 'a', ...annotation }] }],
})
const boxed = (from: object, to: object) => marked({ point_box: { top_left: from, bottom_right: to } })

describe('rejected requests', () => {
  test.each<[string, () => object, string | null, RegExp]>([
    ['no media', () => ({ media: undefined }), 'media', /required/],
    ['media of another type', () => ({ media: picture }), 'media', /expected object/],
    ['a video', () => ({ media: { type: 'video', image_url: picture } }), 'media.type', /expected 'image'/],
    ['an object for a URL', () => ({ media: media({ url: picture } as never) }), 'media.image_url', /expected string/],
    ['an empty URL', () => ({ media: media('') }), 'media.image_url', /expected a URL/],
    [
      'a picture that is none',
      () => ({ media: media('data:image/png;base64,aGk=') }),
      'media.image_url',
      /Unsupported/,
    ],
    ['a private address', () => ({ media: media('http://127.0.0.1/x.png') }), 'media.image_url', /not allowed|port/],
    ['categories of another type', () => ({ categories: 'cat' }), 'categories', /expected array/],
    ['a category of another type', () => ({ categories: [5] }), 'categories[0]', /expected string/],
    ['a blank category', () => ({ categories: ['cat', ' '] }), 'categories[1]', /expected a name/],
    ['a long category', () => ({ categories: ['x'.repeat(201)] }), 'categories[0]', /at most 200/],
    ['many categories', () => ({ categories: Array(101).fill('x') }), 'categories', /at most 100/],
    [
      'categories that are long together',
      () => ({ categories: Array.from({ length: 100 }, (_, i) => `${i}${'x'.repeat(150)}`) }),
      'categories',
      /4000 characters/,
    ],
    ['an unknown output', () => ({ config: { output: 'mask' } }), 'config.output', /'box', 'point'/],
    [
      'thinking, of a model that does not reason',
      () => ({ model: 'service-mk1', config: { enable_thinking: true } }),
      'config.enable_thinking',
      /does not support reasoning/,
    ],
    ['no annotations', () => ({ exemplars: [{ media: media(small) }] }), 'exemplars[0].annotations', /required/],
    [
      'an empty list of annotations',
      () => ({ exemplars: [{ media: media(small), annotations: [] }] }),
      'exemplars[0].annotations',
      /at least 1/,
    ],
    [
      'a point beside its box',
      () => marked({ point: { x: 9, y: 1 }, point_box: { top_left: corner, bottom_right: { x: 8, y: 8 } } }),
      'exemplars[0].annotations[0].point.x',
      /within point_box/,
    ],
    ['an annotation without a point or box', () => marked({}), 'exemplars[0].annotations[0]', /a point or a point_box/],
    [
      'half a box',
      () => marked({ point_box: { top_left: corner } }),
      'exemplars[0].annotations[0].point_box.bottom_right',
      /required/,
    ],
    ['a negative pixel', () => marked({ point: { x: -1, y: 0 } }), 'exemplars[0].annotations[0].point.x', /at least 0/],
    ['a pixel outside', () => marked({ point: { x: 1, y: 51 } }), 'exemplars[0].annotations[0].point.y', /100 x 50/],
    [
      'a box outside',
      () => boxed(corner, { x: 101, y: 2 }),
      'exemplars[0].annotations[0].point_box.bottom_right.x',
      /outside/,
    ],
    [
      'a box upside down',
      () => boxed({ x: 1, y: 9 }, { x: 2, y: 8 }),
      'exemplars[0].annotations[0].point_box.bottom_right.y',
      /below/,
    ],
    ['no mention', () => marked({ mention: null, point: corner }), 'exemplars[0].annotations[0].mention', /required/],
    [
      'an exemplar that is not an image',
      () => ({ exemplars: [{ media: media('x'), annotations: [{ mention: 'a', point: corner }] }] }),
      'exemplars[0].media.image_url',
      /must be a valid http/,
    ],
    [
      'many exemplars',
      () => ({ exemplars: Array(17).fill(marked({ point: corner }).exemplars[0]) }),
      'exemplars',
      /16/,
    ],
    [
      'negative exemplars alone',
      () => ({ negative_exemplars: [{ media: media(small) }] }),
      'negative_exemplars',
      /only together/,
    ],
    [
      'a negative exemplar that is not an image',
      () => ({ categories: ['a'], negative_exemplars: [{ media: media('x') }] }),
      'negative_exemplars[0].media.image_url',
      /must be a valid http/,
    ],
    ['an unknown model', () => ({ model: 'gpt' }), null, /does not exist/],
  ])('%s', async (_name, fields, param, message) => {
    const response = await server.post(PATH, body(fields()))
    const error = await errorOf(response)
    expect(error).toMatchObject({ type: 'invalid_request_error', param })
    expect(error.message).toMatch(message)
    expect(response.status).toBe(400)
    expect(server.engine.works).toEqual([])
  })

  test('a body that is not an object', async () => {
    for (const text of ['[]', '"x"', '5', 'null', '{', '']) {
      expect((await server.post(PATH, text)).status).toBe(400)
    }
  })

  test('a prompt that is too long, naming the cause', async () => {
    const tight = await startTestServer({ engine: new FakeEngine({ contextTokens: 100 }) })
    try {
      const response = await tight.post(PATH, body({ categories: Array.from({ length: 90 }, (_, i) => `thing ${i}`) }))
      expect(await errorOf(response)).toMatchObject({ type: 'invalid_request_error', param: 'categories' })
      expect(response.status).toBe(400)
    } finally {
      await tight.close()
    }
  })

  test('a wrong key, with the code that only this endpoint has', async () => {
    const response = await server.post(PATH, body({}), { authorization: 'Bearer wrong' })
    expect(response.status).toBe(401)
    expect(await errorOf(response)).toMatchObject({
      message: 'Invalid API key',
      type: 'authentication_error',
      code: 'authentication_error',
    })
  })

  test('null means the same as a missing field', async () => {
    const none = { categories: null, exemplars: null, negative_exemplars: null, config: null, model: null }
    expect((await server.post(PATH, body(none))).status).toBe(200)
    expect((await server.post(PATH, body({ config: { enable_thinking: null, output: null }, other: 1 }))).status).toBe(
      200,
    )
  })
})

test('reasoning comes before the detections and is not part of them', async () => {
  server.engine.script = { texts: ['A <point_box mention="x"> (1,1) (2,2) </point_box>', '\n</think>\n\n'] }
  const response = await server.post(PATH, body({ config: { enable_thinking: true } }))
  expect(await jsonOf(response)).toMatchObject({ detections: [], finish_reason: 'complete' })
  const { prefix, branches } = server.engine.works.at(-1)!
  expect(prefix.at(-1)).toMatchObject({ type: 'image' })
  expect(branches[0]!.suffix.at(-1)).toMatchObject({
    text: expect.stringMatching(/assistant\n<think>\n$/),
    trusted: true,
  })
  expect(branches[0]!.thought).toMatchObject({ end: '</think>', budget: 2048 })
})

test.each([true, false])('the card decides whether a model reasons about exemplars: %s', async (exemplars) => {
  const card = await changedCard((shipped) => ({ ...shipped, thought: { ...shipped.thought, exemplars } }))
  const careful = await startTestServer({ environment: { LOOKOUT_MODEL_CARD: card.path } })
  try {
    const shown = { media: media(small), annotations: [{ mention: 'dot', point: { x: 50, y: 10 } }] }
    careful.engine.script = { texts: [...(exemplars ? ['A red star.\n</think>\n\n'] : []), box('dot', 1, 2, 3, 4)] }
    const { detections } = await detect({ exemplars: [shown] }, careful)
    expect(detections.map(({ mention }) => mention)).toEqual(['dot'])
    careful.engine.script = { texts: ['None.'] }
    await detect({ categories: ['dot'] }, careful)
    const thoughts = careful.engine.works.map(({ branches }) => branches[0]!.thought?.budget)
    expect(thoughts).toEqual([exemplars ? 256 : undefined, undefined])
  } finally {
    await careful.close()
    await card.remove()
  }
})

test('a client that disconnects frees the engine', async () => {
  server.engine.script = { texts: ['<'], endless: true, delayMs: 5 }
  const leave = new AbortController()
  const answer = fetch(server.url + PATH, {
    method: 'POST',
    headers: { authorization: 'Bearer test-key', 'content-type': 'application/json' },
    body: JSON.stringify(body({})),
    signal: leave.signal,
  })
  await until(() => server.engine.works.length === 1)
  leave.abort()
  await expect(answer).rejects.toThrow()
  await until(() => server.engine.aborts.length === 1)
})

test('an engine that is lost: 500, without detections', async () => {
  server.engine.script = { texts: [box('cat', 1, 1, 2, 2)], failure: new Error('lost') }
  const response = await server.post(PATH, body({}))
  expect(response.status).toBe(500)
  expect(await errorOf(response)).toMatchObject({ type: 'server_error', message: 'Internal error' })
})

test('it has a rate limit of its own', async () => {
  const limited = await startTestServer({ environment: { LOOKOUT_RATE_LIMITS: 'on' } })
  try {
    const response = await limited.post(PATH, {})
    expect(response.headers.get('x-ratelimit-limit-requests')).toBe('600')
    expect(response.headers.get('x-ratelimit-remaining-requests')).toBe('599')
    const chat = await limited.post('/v1/chat/completions', {})
    expect(chat.headers.get('x-ratelimit-remaining-requests')).toBe('299')
  } finally {
    await limited.close()
  }
})
