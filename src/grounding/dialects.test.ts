import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { parsePattern } from '../inference/constraints/regex/anchors.ts'
import { PatternMatcher } from '../inference/constraints/regex/matcher.ts'
import type { Annotation, Leaf, LeafKind, Prose } from './annotation.ts'
import type { AnnotationReader, Dialect, Scene } from './dialect.ts'
import { DIALECTS, type DialectName } from './dialects/dialects.ts'
import { freeMarkupReader } from './dialects/markup.ts'
import { parseMarkup } from './markup-parser.ts'
import { formatAnnotation, formatPiece } from './markup-writer.ts'
import { upTo } from './numbers.ts'

/** A fixed seed keeps CI deterministic. */
fc.configureGlobal({ seed: 20_261_121 })

const STILL: Scene = { assets: 1, timed: false, image: { width: 640, height: 448 } }

/** The pieces that a reader emits for a text that arrives in these chunks. */
function readAll(reader: AnnotationReader, pieces: readonly string[], cut = false): (Prose | Annotation)[] {
  return joined([...pieces.flatMap((piece) => reader.push(piece)), ...reader.end(cut)])
}

function joined(pieces: readonly (Prose | Annotation)[]): (Prose | Annotation)[] {
  const result: (Prose | Annotation)[] = []
  for (const piece of pieces) {
    const last = result.at(-1)
    if (piece.kind === 'prose' && last?.kind === 'prose')
      result[result.length - 1] = { kind: 'prose', text: last.text + piece.text }
    else result.push(piece)
  }
  return result
}

function markupOf(pieces: readonly (Prose | Annotation)[]): string {
  return pieces.map(formatPiece).join('')
}

/** Splits the text into chunks of these lengths, repeated. */
function split(text: string, lengths: readonly number[]): string[] {
  const pieces: string[] = []
  for (let at = 0, i = 0; at < text.length; at += lengths[i++ % lengths.length]!) {
    pieces.push(text.slice(at, at + lengths[i % lengths.length]!))
  }
  return pieces
}

const chunks = fc.array(fc.integer({ min: 1, max: 12 }), { minLength: 1, maxLength: 5 })
const coordinate = fc.integer({ min: 0, max: 1000 })
const point = fc.record({ x: coordinate, y: coordinate })
const anyMention = fc.string({ minLength: 1, unit: 'grapheme' }).map((text) => text.toWellFormed())
function leaf(kind: LeafKind, mention = anyMention): fc.Arbitrary<Leaf> {
  const [minLength, maxLength] = { point: [1, 1], point_box: [2, 2], polygon: [3, 7] }[kind] as [number, number]
  return fc.record({ mention, points: fc.array(point, { minLength, maxLength }) }).map(({ mention, points }) => ({
    kind,
    mention,
    points: kind === 'point_box' ? ordered(points) : points,
  }))
}

function ordered(points: Leaf['points']): Leaf['points'] {
  const [a, b] = points as [Leaf['points'][0], Leaf['points'][0]]
  return [
    { x: Math.min(a.x, b.x), y: Math.min(a.y, b.y) },
    { x: Math.max(a.x, b.x), y: Math.max(a.y, b.y) },
  ]
}

function matches(pattern: string, text: string): boolean {
  return new PatternMatcher(parsePattern(pattern)).test(text)
}

const KIND_OF = { point: 'point', box: 'point_box' } as const

describe.each(Object.entries(DIALECTS) as [DialectName, Dialect][])('%s', (name, dialect) => {
  const kinds = (['point', 'box'] as const).filter((kind) => dialect.formats.includes(kind))
  const answered = (kind: 'point' | 'box') => leaf(KIND_OF[kind])
  const written = (label: string) => dialect.detection.written?.(label) ?? label

  test.each(kinds)('reads back every answer that it writes: %s', (kind) => {
    fc.assert(
      fc.property(fc.array(answered(kind), { maxLength: 5 }), chunks, (leaves, lengths) => {
        const answer = dialect.detection.answer(leaves, STILL)
        const read = readAll(dialect.reader(STILL), split(answer, lengths))
        const found = read.filter((piece) => piece.kind !== 'prose') as Leaf[]
        expect(found.map(({ kind, mention }) => ({ kind, mention }))).toEqual(
          leaves.map(({ kind, mention }) => ({ kind, mention: written(mention!) || undefined })),
        )
        for (const [i, { points }] of found.entries()) {
          for (const [j, { x, y }] of points.entries()) {
            // A space coarser than the grid yields the nearest point.
            const { tolerance } = TOLERANCES[name]
            expect(Math.abs(x - leaves[i]!.points[j]!.x)).toBeLessThanOrEqual(tolerance)
            expect(Math.abs(y - leaves[i]!.points[j]!.y)).toBeLessThanOrEqual(tolerance)
          }
        }
        parseMarkup(markupOf(read))
      }),
      { numRuns: 60 },
    )
  })

  test.each(kinds)('the pattern matches answers with the labels and no others: %s', (kind) => {
    fc.assert(
      fc.property(fc.array(answered(kind), { maxLength: 3 }), (leaves) => {
        const labels = [...new Set(leaves.map(({ mention }) => mention!)), 'other']
        const answer = dialect.detection.answer(leaves, STILL)
        expect(matches(dialect.detection.pattern(kind, labels, STILL), answer)).toBe(true)
        const others = leaves.map((one) => ({ ...one, mention: `${one.mention}x` }))
        const wrong = others.some(({ mention }) => !labels.map(written).includes(written(mention)))
        if (wrong)
          expect(matches(dialect.detection.pattern(kind, labels, STILL), dialect.detection.answer(others, STILL))).toBe(
            false,
          )
      }),
      { numRuns: 60 },
    )
  })

  test('any text, in any chunks and truncated anywhere, becomes strictly valid markup', () => {
    const piece = fc.oneof(fc.constantFrom(...SCRAPS), fc.string({ maxLength: 3 }), anyAnnotation.map(formatAnnotation))
    fc.assert(
      fc.property(
        fc.array(piece, { maxLength: 12 }),
        chunks,
        fc.nat(400),
        fc.boolean(),
        fc.boolean(),
        (parts, lengths, at, cut, timed) => {
          const scene = { ...STILL, timed }
          const text = parts.join('').slice(0, cut ? at : undefined)
          const whole = readAll(dialect.reader(scene), [text], cut)
          expect(readAll(dialect.reader(scene), split(text, lengths), cut)).toEqual(whole)
          expect(() => parseMarkup(markupOf(whole))).not.toThrow()
        },
      ),
      { numRuns: 300 },
    )
  })

  test('emits complete pieces only', () => {
    fc.assert(
      fc.property(fc.array(answered(kinds[0]!), { minLength: 1, maxLength: 4 }), chunks, (leaves, lengths) => {
        const reader = dialect.reader(STILL)
        for (const piece of split(dialect.detection.answer(leaves, STILL), lengths)) {
          parseMarkup(markupOf(reader.push(piece)))
        }
      }),
    )
  })

  test('passes prose through unchanged and at once', () => {
    const prose = 'Two cups; a < b, 3 > 2 & so on: "x" [1, 2] {y} 100 %.\n'
    const reader = dialect.reader(STILL)
    expect(markupOf(joined([...prose].flatMap((character) => reader.push(character))))).toBe(prose)
    expect(reader.end(false)).toEqual([])
  })
})

/** In steps of the 0..1000 grid: half a step of the dialect's own space, rounded up. */
const TOLERANCES: Readonly<Record<DialectName, { tolerance: number }>> = {
  markup: { tolerance: 0 },
  'qwen3-vl': { tolerance: 0 },
  // 448 pixels for 1000 grid steps.
  'qwen2.5-vl': { tolerance: 2 },
  gemma: { tolerance: 0 },
  molmo: { tolerance: 0 },
  paligemma: { tolerance: 1 },
  internvl: { tolerance: 0 },
  'minicpm-v': { tolerance: 0 },
  glm4v: { tolerance: 0 },
  'lfm2.5-vl': { tolerance: 0 },
  molmo2: { tolerance: 0 },
  'deepseek-ocr': { tolerance: 1 },
  'dots-ocr': { tolerance: 2 },
  'lighton-ocr': { tolerance: 0 },
  'mistral-large-4': { tolerance: 1 },
}

const anyAnnotation: fc.Arbitrary<Annotation> = fc.constantFrom<LeafKind>('point', 'point_box', 'polygon').chain(leaf)

const SCRAPS = [
  '<point',
  '<point>',
  '<POINT_BOX mention="a"',
  " mention='b>'",
  '</point>',
  '</point_box >',
  ' (1,2) ',
  '(3,4)',
  '(1001,2)',
  '<collection mention="c">',
  '</collection>',
  '<track mention="d">',
  '<point t="1 s"> (1,2) </point>',
  '</track>',
  '<clip t="3 1" />',
  '<clip t="x"/>',
  ' t="2 seconds"',
  ' asset_idx="7"',
  '>',
  '/>',
  '<',
  '</',
  '"',
  'x',
  '```json\n[',
  '{"bbox_2d": [10, 20, 3, 4], "label": "cat"}',
  '{"bbox_2d": [1, 2, 3, 4',
  '<ref>cat</ref><box>[[1, 2, 3, 4], [5,6,7,1001]]</box>',
  '<ref>dog</ref><box>[[1, 2',
  '<ref>cat</ref><box>1 2 3 4</box>',
  '<box>1, 2 3',
  '<box>',
  '<ref>',
  '<|begin_of_box|>',
  '<|begin_of_box|>[[1, 2, 3, 4]',
  '<|begin_of_box|>[',
  '<|end_of_box|>',
  '<|',
  '</box>',
  '{"point_2d": [5, 6]}',
  '"label": "a"',
  ', ',
  ']\n```',
  '{"box_2d": [1, 2, 3, 4], "label": "dog"}',
  '{"point": [1, 2], "label": "<point>"}',
  '<point x="10.5" y="20" alt="z">z</point>',
  '<points x1="1" y1="2" x2="3" y2="4" alt="w">w</points>',
  '<loc0001><loc0002><loc1023><loc0512> tree',
  '[{"label": "cat", "bbox": [0.1, 0.25, 1, 1.0]}',
  '{"bbox": [1, 2, 3, 4], "category": "Text", "text": "<b>"}',
  '<|ref|>title<|/ref|><|det|>[[1, 2, 3, 999]]<|/det|>',
  '<|ref|>',
  '<|det|>',
  '![image](image_1.png)10,20,30,400',
  '![image](',
  '<points coords="1 1 073 160 2 173 600">boats</points>',
  '<tracks coords="0.0 1 635 522;0.5 1 606 490 2 511 124">a</tracks>',
  '<points coords="',
  ' ; ',
]

/** Replies in the notation of each family, and the markup that they become. */
const WRITTEN: readonly (readonly [DialectName, text: string, expected: string])[] = [
  [
    'qwen3-vl',
    'Here:\n```json\n[\n\t{"bbox_2d": [10, 20, 300, 400], "label": "cat"},\n\t{"bbox_2d": [700, 600, 500, 800], "label": "a \\"b\\""}\n]\n```\nDone.',
    'Here:\n<point_box mention="cat"> (10,20) (300,400) </point_box>\n<point_box mention="a &quot;b&quot;"> (500,600) (700,800) </point_box>\nDone.',
  ],
  ['qwen3-vl', '{"bbox_2d": [1, 2, 3, 4]} and so on', '<point_box> (1,2) (3,4) </point_box> and so on'],
  [
    'qwen3-vl',
    '[{"point_2d": [346, 1200], "label": "person", "role": "referee"}].',
    '<point mention="person"> (346,1000) </point>.',
  ],
  ['qwen3-vl', '```json\n[]\n```', ''],
  ['qwen3-vl', '```json\n{"a": [1]}\n```', '```json\n{"a": [1]}\n```'],
  ['qwen3-vl', 'an <b>x</b> `code` [1] {"label": "x"} <point>', 'an <b>x</b> `code` [1] {"label": "x"} &lt;point>'],
  [
    'qwen2.5-vl',
    '{"bbox_2d": [64, 224, 640, 448], "label": "cat"}',
    '<point_box mention="cat"> (100,500) (1000,1000) </point_box>',
  ],
  [
    'gemma',
    '```json\n[\n  {"box_2d": [6, 246, 386, 526], "label": "logo"}\n]\n```',
    '<point_box mention="logo"> (246,6) (526,386) </point_box>',
  ],
  ['gemma', '[{"point": [100, 200], "label": "nose"}]', '<point mention="nose"> (200,100) </point>'],
  [
    'molmo',
    'It is <point x="61.5" y="40.4" alt="the cup">the cup</point> here.',
    'It is <point mention="the cup"> (615,404) </point> here.',
  ],
  [
    'molmo',
    '<points x1="10.5" y1="20" x2="30" y2="99.9" alt="cups">cups</points>',
    '<point mention="cups"> (105,200) </point> <point mention="cups"> (300,999) </point>',
  ],
  ['molmo', '<point x="161.5" y="40.4" alt="a">a</point>', '&lt;point x="161.5" y="40.4" alt="a">a&lt;/point>'],
  [
    'paligemma',
    '<loc0246><loc0229><loc0872><loc0904> car ; <loc0000><loc0512><loc1023><loc0256> big tree',
    '<point_box mention="car"> (224,240) (883,852) </point_box>\n<point_box mention="big tree"> (250,0) (500,999) </point_box>',
  ],
  [
    'internvl',
    'A <ref>cat</ref><box>[[10, 20, 30, 40], [500,600,700,1002]]</box>.',
    'A <point_box mention="cat"> (10,20) (30,40) </point_box><point_box mention="cat"> (500,600) (700,1000) </point_box>.',
  ],
  ['internvl', '<box>[[1, 2, 3, 4]]</box>', '<box>[[1, 2, 3, 4]]</box>'],
  [
    'minicpm-v',
    '<ref>big tree</ref><box>10 20 300 400</box> and <box>1, 2, 3, 4</box>',
    '<point_box mention="big tree"> (10,20) (300,400) </point_box> and <point_box> (1,2) (3,4) </point_box>',
  ],
  ['minicpm-v', '<ref>a</ref><box>1 2 3</box> <box>', '<ref>a</ref><box>1 2 3</box> <box>'],
  [
    'glm4v',
    'There: <|begin_of_box|>[[10, 20, 30, 40], [500, 600, 700, 800]]<|end_of_box|>.',
    'There: <point_box> (10,20) (30,40) </point_box> <point_box> (500,600) (700,800) </point_box>.',
  ],
  ['glm4v', '<|begin_of_box|>(10,20,30,40)<|end_of_box|>', '<point_box> (10,20) (30,40) </point_box>'],
  ['glm4v', '<|begin_of_box|><10, 20, 30, 40><|end_of_box|>', '<point_box> (10,20) (30,40) </point_box>'],
  ['glm4v', 'It is <|begin_of_box|>42<|end_of_box|>', 'It is <|begin_of_box|>42<|end_of_box|>'],
  [
    'glm4v',
    '<|begin_of_box|>[{"label": "cat", "bbox_2d": [10, 20, 30, 40]}]<|end_of_box|> Done.',
    '<point_box mention="cat"> (10,20) (30,40) </point_box> Done.',
  ],
  [
    'lfm2.5-vl',
    '[{"label": "cat", "bbox": [0.12, 0.05, 0.8, 0.6125]}, {"label": "dog", "bbox": [0, 0.5, 1.0, 1]}]',
    '<point_box mention="cat"> (120,50) (800,613) </point_box>\n<point_box mention="dog"> (0,500) (1000,1000) </point_box>',
  ],
  ['lfm2.5-vl', 'It: {"bbox": [0.5, 0.5, 1.5, 1]}', 'It: <point_box> (500,500) (1000,1000) </point_box>'],
  [
    'mistral-large-4',
    '[{"box_2d": [0, 999, 500, 250], "label": "x first"}]',
    '<point_box mention="x first"> (0,250) (501,1000) </point_box>',
  ],
  [
    'deepseek-ocr',
    '<|ref|>title<|/ref|><|det|>[[0, 80, 999, 113]]<|/det|>\n# Page',
    '<point_box mention="title"> (0,80) (1000,113) </point_box>\n# Page',
  ],
  ['deepseek-ocr', 'a <|det|> b <|ref|>c', 'a <|det|> b <|ref|>c'],
  [
    'dots-ocr',
    '[{"bbox": [64, 224, 640, 448], "category": "Text", "text": "So it says"}, {"bbox": [0, 0, 64, 44], "category": "Picture"}]',
    '<point_box mention="Text"> (100,500) (1000,1000) </point_box> So it says\n<point_box mention="Picture"> (0,0) (100,98) </point_box>',
  ],
  [
    'lighton-ocr',
    'Text ![image](image_1.png)120,80,900,410\nand ![image](image_2.png) 1, 2, 3, 4 end',
    'Text <point_box mention="image"> (120,80) (900,410) </point_box>\nand <point_box mention="image"> (1,2) (3,4) </point_box> end',
  ],
  ['lighton-ocr', 'See ![a link](x.png) and !', 'See ![a link](x.png) and !'],
  [
    'molmo2',
    'Counting the <points coords="1 1 073 160 2 173 600" alt="boats">the boats</points> shows 2.',
    'Counting the <point mention="the boats"> (73,160) </point> <point mention="the boats"> (173,600) </point> shows 2.',
  ],
  ['molmo2', '<points coords="1 1 073 1600">a</points>', '<points coords="1 1 073 1600">a</points>'],
  [
    'molmo2',
    '<tracks coords="0.0 1 635 522;0.5 1 606 490">a</tracks>',
    '<point mention="a"> (635,522) </point> <point mention="a"> (606,490) </point>',
  ],
]

test('points of Molmo 2 belong to the image or the time before them, and tracks to one thing each', () => {
  const read = (text: string, scene: Partial<Scene>) =>
    markupOf(readAll(DIALECTS.molmo2.reader({ ...STILL, ...scene }), [text]))
  expect(read('<points coords="1 1 010 020;3 2 030 040">a</points>', { assets: 3 })).toBe(
    '<point mention="a" asset_idx="0"> (10,20) </point> <point mention="a" asset_idx="2"> (30,40) </point>',
  )
  expect(read('<points coords="1.5 1 010 020">a</points>', { timed: true })).toBe(
    '<point mention="a" t="1.5 seconds"> (10,20) </point>',
  )
  expect(read('<tracks coords="0.0 1 635 522;0.5 1 606 490 2 511 124">a</tracks>', { timed: true })).toBe(
    '<track mention="a"> <point t="0.0 seconds"> (635,522) </point> <point t="0.5 seconds"> (606,490) </point> </track> ' +
      '<track mention="a"> <point t="0.5 seconds"> (511,124) </point> </track>',
  )
})

test.each(WRITTEN)('%s: %s', (name, text, expected) => {
  expect(markupOf(readAll(DIALECTS[name].reader(STILL), [text]))).toBe(expected)
  expect(markupOf(readAll(DIALECTS[name].reader(STILL), [...text]))).toBe(expected)
})

test('upTo matches the numbers up to a limit', () => {
  for (const last of [0, 1, 9, 10, 99, 100, 101, 640, 1000, 1023]) {
    const matcher = new PatternMatcher(parsePattern(upTo(last)))
    for (let i = 0; i <= 2 * last + 20; i++) expect([i, matcher.test(String(i))]).toEqual([i, i <= last])
    expect(matcher.test('00')).toBe(false)
    expect(matcher.test('')).toBe(false)
  }
})

describe('markup written by a model', () => {
  const read = (text: string, scene: Partial<Scene> = {}) =>
    markupOf(readAll(DIALECTS.markup.reader({ ...STILL, ...scene }), [text]))

  test.each([
    [
      'puts corners in order',
      '<point_box mention="a"> (9,8) (7,6) </point_box>',
      '<point_box mention="a"> (7,6) (9,8) </point_box>',
    ],
    ['uses one spelling', "<Point Mention='a'>( 5 , 6)</POINT>", '<point mention="a"> (5,6) </point>'],
    [
      'drops asset_idx of the only asset',
      '<point mention="a" asset_idx="0"> (1,2) </point>',
      '<point mention="a"> (1,2) </point>',
    ],
    ['drops t without a video', '<point mention="a" t="1 s"> (1,2) </point>', '<point mention="a"> (1,2) </point>'],
    [
      'emits members of a collection on their own',
      'Two: <collection mention="mug"> <point> (1,2) </point> <point mention="cup"> (3,4) </point> </collection>.',
      'Two:  <point mention="mug"> (1,2) </point> <point mention="cup"> (3,4) </point> .',
    ],
    ['escapes a stray closing tag', 'a </point> b', 'a &lt;/point> b'],
    ['escapes a tag without a body', 'a <point> b', 'a &lt;point> b'],
    ['escapes a point beyond the grid', '<point> (1,1001) </point>', '&lt;point> (1,1001) &lt;/point>'],
    ['keeps other tags', '<b>x</b> <pointless>', '<b>x</b> <pointless>'],
  ])('%s', (_case, text, expected) => {
    expect(read(text)).toBe(expected)
  })

  test('keeps asset_idx and t where the request has several assets or a video', () => {
    const text = '<point mention="a" t="1.5 seconds" asset_idx="1"> (1,2) </point>'
    expect(read(text, { assets: 2, timed: true })).toBe(text)
    expect(read(text, { assets: 2 })).toBe(text.replace(' t="1.5 seconds"', ''))
    expect(read(text.replace('"1"', '"2"'), { assets: 2, timed: true })).toBe(text.replace(' asset_idx="1"', ''))
  })

  test('a truncated track keeps its complete waypoints', () => {
    const complete = '<track mention="a"> <point t="1.0 seconds"> (1,2) </point>'
    for (const rest of ['', ' <poi', ' <point t="2.0 seconds"> (3', ' </tra']) {
      const reader = DIALECTS.markup.reader({ ...STILL, timed: true })
      expect(markupOf(readAll(reader, [complete + rest], true))).toBe(`${complete} </track>`)
    }
  })

  test.each([
    ['point', STILL, '<point mention="a &amp; b"> (0,1000) </point>', '<point mention="a & b"> (0,1) </point>'],
    ['box', STILL, '<point_box> (1,2) (3,4) </point_box>', '<point_box> (1,2) </point_box>'],
    [
      'box',
      STILL,
      '<point_box mention="a"> (1,2) (3,4) </point_box>',
      '<point_box mention="a" asset_idx="0"> (1,2) (3,4) </point_box>',
    ],
    [
      'box',
      { ...STILL, assets: 2 },
      '<point_box asset_idx="1"> (1,2) (3,4) </point_box>',
      '<point_box asset_idx="2"> (1,2) (3,4) </point_box>',
    ],
    [
      'box',
      { ...STILL, assets: 3, choices: [0, 2] },
      '<point_box mention="a" asset_idx="2"> (1,2) (3,4) </point_box>',
      '<point_box mention="a" asset_idx="1"> (1,2) (3,4) </point_box>',
    ],
    [
      'box',
      { ...STILL, assets: 2, choices: [0, 1] },
      '<point_box asset_idx="1"> (1,2) (3,4) </point_box>',
      '<point_box> (1,2) (3,4) </point_box>',
    ],
    [
      'clip',
      { ...STILL, assets: 3, timed: true, choices: [1, 2] },
      '<clip mention="a" asset_idx="1" t="1 seconds" />',
      '<clip mention="a" t="1 seconds" />',
    ],
    ['polygon', STILL, '<polygon> (1,2) (3,4) (5,6) </polygon>', '<polygon> (1,2) (3,4) </polygon>'],
    ['clip', { ...STILL, timed: true }, '<clip mention="a" t="1 seconds 2.5 seconds" />', '<clip mention="a" />'],
    ['point', { ...STILL, timed: true }, '<point t="1.0 seconds"> (1,2) </point>', '<point t="soon"> (1,2) </point>'],
  ] as const)('the constraint of %s allows only valid markup', (format, scene, right, wrong) => {
    const { triggers, tags } = DIALECTS.markup.tags(format, scene)
    expect(tags.every(({ begin }) => triggers.filter((trigger) => begin.startsWith(trigger)).length === 1)).toBe(true)
    const bound = (text: string) =>
      tags.some(
        ({ begin, pattern, end }) =>
          text.startsWith(begin) &&
          text.endsWith(end) &&
          matches(pattern, text.slice(begin.length, text.length - end.length)),
      )
    expect(bound(right)).toBe(true)
    expect(bound(wrong)).toBe(false)
    expect(() => parseMarkup(right)).not.toThrow()
  })
})

describe('markup in a text that nothing has asked for', () => {
  const scene = { ...STILL, assets: 2, timed: true }

  test.each([
    'A page:\n<video>\n <track src="s.vtt" kind="captions">\n</video>\nand so on',
    'The <track tag isn\'t "closed. Then more',
    '<track mention="a"> <point t="1 s"> (1,2) and so on',
    '<track>\n</collection> and so on',
    '<point mention="a < b, or more',
    "<clip t='3\nand so on",
    '<svg><polygon points="1,2 3,4"/></svg> is one',
    '<collection xmlns="http://a.b/c">\n <record/>\n</collection>',
    'In XML, <collection> holds records.',
    '<collection mention="a"> <collection> and so on',
    '<collection mention="a"> <track src="s.vtt"> and so on',
    'a </collection> and </track > more',
    'a vector<Point > p; it\'s a "fine" thing',
  ])('stays as it is, and is held no longer than it may be an annotation: %s', (text) => {
    for (let at = 0; at <= text.length; at++) {
      const reader = freeMarkupReader(scene)
      const pieces = [...reader.push(text.slice(0, at)), ...reader.push(text.slice(at))]
      expect(markupOf(pieces)).toBe(text)
      expect(reader.end(true)).toEqual([])
    }
  })

  test.each([
    ['<collection mention="a">\n</collection> and so on', '\n and so on'],
    [
      '<collection mention="a"> <point> (1,2) </point> x <point> (3,4) </point> </collection> <point> (5,6) </point>',
      ' <point mention="a"> (1,2) </point> x <point mention="a"> (3,4) </point>  <point> (5,6) </point>',
    ],
    [
      '<collection mention="a">\n- <point> (1,2) </point>\n- <point> (3,4) </point>, 1 < 2\n</collection>',
      '\n- <point mention="a"> (1,2) </point>\n- <point mention="a"> (3,4) </point>, 1 < 2\n',
    ],
    [
      '<collection mention="a"> <point> (1,2) </point> <br> <point> (3,4) </point> </collection>',
      ' <point mention="a"> (1,2) </point> <br> <point> (3,4) </point> ',
    ],
    [
      '<collection mention="a"> <clip t="1" /> </collection> </collection>',
      ' <clip mention="a" t="1 seconds" />  </collection>',
    ],
    [
      '<collection mention="a"> <track> <point t="1 s"> (1,2) </point>',
      '<track mention="a"> <point t="1.0 seconds"> (1,2) </point> </track>',
    ],
    [
      '<collection mention="a"> <collection mention="b"> <point> (1,2) </point> </collection>',
      '<collection mention="a">  <point mention="b"> (1,2) </point> ',
    ],
  ])('a collection passes its attributes to what stands in it: %s', (text, expected) => {
    for (let at = 0; at <= text.length; at++) {
      const pieces = [text.slice(0, at), text.slice(at)]
      expect(markupOf(readAll(freeMarkupReader(scene), pieces, true))).toBe(expected)
    }
  })
})

test('Molmo 2 names the places in a video by their seconds, as it reads them', () => {
  const { detection, reader } = DIALECTS.molmo2
  const scene = { ...STILL, timed: true }
  const leaves: Leaf[] = [
    { kind: 'point', mention: 'dog', points: [{ x: 1, y: 2 }], t: 3 },
    { kind: 'point', mention: 'dog', points: [{ x: 5, y: 6 }], t: 4.5 },
  ]
  const text = detection.answer(leaves, scene)
  expect(text).toBe('<points coords="3.0 1 001 002;4.5 2 005 006">dog</points>')
  expect(readAll(reader(scene), [text], false).filter(({ kind }) => kind !== 'prose')).toEqual(leaves)
})
