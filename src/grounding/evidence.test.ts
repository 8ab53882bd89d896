import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { parsePattern } from '../inference/constraints/regex/anchors.ts'
import { PatternMatcher } from '../inference/constraints/regex/matcher.ts'
import { getOrMake } from '../lib/get-or-make.ts'
import type { Leaf } from './annotation.ts'
import type { NumberForm } from './answer-form.ts'
import type { DetectionKind, Dialect, Scene } from './dialect.ts'
import { DIALECTS } from './dialects/dialects.ts'
import { type AnswerEvidence, evidenceIn, type RatedToken } from './evidence.ts'

const scene: Scene = { assets: 1, timed: false, image: { width: 640, height: 480 } }
const CASES = Object.entries<Dialect>(DIALECTS).flatMap(([name, dialect]) =>
  (['box', 'point'] as const)
    .filter((kind) => dialect.formats.includes(kind))
    .map((kind): [string, DetectionKind, Dialect] => [name, kind, dialect]),
)

/** Another text with some probability, in place of all that follows; null for the end of the turn. */
interface Turn {
  readonly at: number
  readonly text: string | null
  readonly mass: number
}

const grid = fc.record({ x: fc.nat(1000), y: fc.nat(1000) })
/** Each has a name of its own, so that none shares a tag with another. */
const leavesOf = (kind: DetectionKind, least = 1) =>
  fc.array(fc.tuple(grid, grid), { minLength: least, maxLength: 4 }).map((places) =>
    places.map(([a, b], index): Leaf => {
      const mention = `thing ${'abcdef'[index]}`
      if (kind === 'point') return { kind: 'point', mention, points: [a] }
      const [left, top] = [Math.min(a.x, b.x), Math.min(a.y, b.y)]
      const points = [
        { x: left, y: top },
        { x: Math.max(a.x, b.x), y: Math.max(a.y, b.y) },
      ]
      return { kind: 'point_box', mention, points }
    }),
  )
const sizes = fc.infiniteStream(fc.integer({ min: 1, max: 9 }))
const mass = fc.double({ min: 0.01, max: 0.99, noNaN: true })

/** The text in tokens of these sizes, cut also where a turn needs it. */
function tokensOf(text: string, cuts: fc.Stream<number>, turn?: Turn): { tokens: RatedToken[]; end: RatedToken } {
  const bytes = Buffer.from(text)
  const tokens: RatedToken[] = []
  for (let at = 0; at < bytes.length; ) {
    let size = Math.min(cuts.next().value!, bytes.length - at)
    if (turn?.text === null && at < turn.at) size = Math.min(size, turn.at - at)
    tokens.push(rated(bytes, at, size, turn))
    at += size
  }
  return { tokens, end: rated(bytes, bytes.length, 0, turn) }
}

function rated(bytes: Buffer, at: number, size: number, turn?: Turn): RatedToken {
  const own = [...bytes.subarray(at, at + size)]
  const isHere = turn !== undefined && at <= turn.at && (turn.at < at + size || (size === 0 && turn.at === at))
  if (!isHere) return { bytes: own, logProb: 0, top: [{ bytes: own, logProb: 0 }] }
  const chosen = { bytes: own, logProb: Math.log(1 - turn.mass) }
  const other = turn.text === null ? [] : [...bytes.subarray(at, turn.at), ...Buffer.from(turn.text)]
  return { ...chosen, top: [chosen, { bytes: other, logProb: Math.log(turn.mass) }] }
}

/** Where one text leaves the other, and how it goes on; at least three characters of it. */
function turnOf(text: string, other: string, size: number, mass: number): Turn {
  let at = 0
  while (at < Math.min(text.length, other.length) && text[at] === other[at]) at++
  return { at, text: at === other.length ? null : other.slice(at, at + 3 + size), mass }
}

function expectPlaces({ places }: AnswerEvidence, expected: readonly { begin?: number; near?: number }[]): void {
  expect(places).toHaveLength(expected.length)
  for (const [index, { begin = 1, near = 1 }] of expected.entries()) {
    expect(places[index]!.evidence!.begin).toBeCloseTo(begin, 6)
    expect(places[index]!.evidence!.near).toBeCloseTo(near, 6)
  }
}

describe.each(CASES)('%s, %s', (_, kind, { detection, reader }) => {
  const form = detection.form(kind, scene)
  const evidenceOf = (tokens: readonly RatedToken[], end: RatedToken | null) =>
    evidenceIn({ tokens, end, isCut: false }, form, reader(scene))
  const write = (leaves: readonly Leaf[]) => detection.answer(leaves, scene)

  test('finds the objects that its reader finds, and is as sure as the tokens', () => {
    fc.assert(
      fc.property(leavesOf(kind, 0), sizes, (leaves, cuts) => {
        const text = write(leaves)
        const { tokens, end } = tokensOf(text, cuts)
        const evidence = evidenceOf(tokens, end)
        const sure = { begin: 1, near: 1, mean: 1 }
        expect(evidence.places).toEqual(leaves.map(() => ({ annotation: expect.anything(), evidence: sure })))
        expect(evidence.more).toBe(0)
        // A place is found before its object ends, so that the end of a reply that was cut changes none.
        expectPlaces(
          evidenceOf(tokens, null),
          leaves.map(() => ({})),
        )
      }),
    )
  })

  test('an end in place of an object', () => {
    fc.assert(
      fc.property(leavesOf(kind), fc.nat(3), fc.nat(5), mass, sizes, (leaves, nth, size, mass, cuts) => {
        const ended = nth % leaves.length
        const text = write(leaves)
        const turn = turnOf(text, write(leaves.slice(0, ended)), size, mass)
        const { tokens, end } = tokensOf(text, cuts, turn)
        const evidence = evidenceOf(tokens, end)
        expectPlaces(
          evidence,
          leaves.map((_, index) => (index === ended ? { begin: 1 - mass } : {})),
        )
        expect(evidence.more).toBe(0)
      }),
    )
  })

  test('another object in place of the end', () => {
    fc.assert(
      fc.property(leavesOf(kind), fc.nat(5), mass, sizes, (leaves, size, mass, cuts) => {
        const text = write(leaves.slice(1))
        const turn = turnOf(text, write([...leaves.slice(1), leaves[0]!]), size, mass)
        const { tokens, end } = tokensOf(text, cuts, turn)
        const evidence = evidenceOf(tokens, end)
        expectPlaces(
          evidence,
          leaves.slice(1).map(() => ({})),
        )
        expect(evidence.more).toBeCloseTo(mass, 6)
      }),
    )
  })

  test('another digit counts by the nearest number that it can become', () => {
    fc.assert(
      fc.property(leavesOf(kind), fc.nat(), fc.nat(9), mass, sizes, (leaves, pick, digit, mass, cuts) => {
        const text = write(leaves)
        const [match] = [...text.matchAll(form.object)]
        const spans = match!.indices!.slice(1) as [number, number][]
        const nth = pick % spans.length
        const [from, to] = spans[nth]!
        const at = from + (pick % (to - from + 1))
        const number = form.numbers[nth]!
        const beginning = text.slice(from, at) + digit
        const values = spans.map(([start, end]) => Number(text.slice(start, end)))
        const side = kind === 'point' ? null : Math.abs(values[nth]! - values[(nth + 2) % 4]!)
        const within = Math.max(side === null ? 0.025 * number.most : 0.12 * side, 0.002 * number.most)
        // What is behind the number, or no number at all, is no other digit.
        const written = writtenBy(number).filter((one) => one.startsWith(beginning))
        fc.pre(written.length > 0 && text[at] !== String(digit))
        const isNear = written.some((one) => Math.abs(Number(one) - values[nth]!) <= within + 1e-9)
        const { tokens, end } = tokensOf(text, cuts, { at, text: String(digit), mass })
        const near = isNear ? 1 : 1 - mass / spans.length
        expectPlaces(
          evidenceOf(tokens, end),
          leaves.map((_, index) => (index === 0 ? { near } : {})),
        )
      }),
      { numRuns: 150 },
    )
  })

  test('goes on with one more object, behind all that it has', () => {
    fc.assert(
      fc.property(leavesOf(kind), fc.boolean(), ([more, ...leaves], isNamed) => {
        const text = write(leaves)
        const last = [...text.matchAll(form.object)].at(-1)
        const kept = text.slice(0, last === undefined ? 0 : last.index + last[0].length)
        const names = [...leaves, more!].map(({ mention }) => mention!)
        const pattern = parsePattern(detection.another(kind, isNamed ? names : null, scene, last === undefined))
        const longer = write([...leaves, more!])
        expect(longer.startsWith(kept)).toBe(true)
        // The pattern ends with the object, and the list after it.
        const ends = Array.from({ length: longer.length - kept.length }, (_, at) => longer.length - at)
        const end = ends.find((end) => new PatternMatcher(pattern).test(longer.slice(kept.length, end)))
        expect(end).toBeGreaterThan(kept.length)
        const own = reader(scene)
        const found = [...own.push(longer.slice(0, end)), ...own.end(false)].filter(({ kind }) => kind !== 'prose')
        expect(found).toHaveLength(leaves.length + 1)
        expect([...longer.slice(0, end).matchAll(form.object)]).toHaveLength(leaves.length + 1)
      }),
      { numRuns: 20 },
    )
  })

  test('the mean of the digits does not depend on the tokens', () => {
    fc.assert(
      fc.property(leavesOf(kind), fc.double({ min: -3, max: 0, noNaN: true }), sizes, ([leaf], logProb, cuts) => {
        const text = write([leaf!])
        const spans = [...text.matchAll(form.object)].flatMap((match) => match.indices!.slice(1) as [number, number][])
        let at = 0
        const tokens = tokensOf(text, cuts).tokens.map((token) => {
          const places = token.bytes.map(() => at++)
          const isDigit = (place: number) => text[place] !== '.' && spans.some(([a, b]) => place >= a && place < b)
          return { ...token, logProb: logProb * places.filter(isDigit).length }
        })
        expect(evidenceOf(tokens, null).places[0]!.evidence!.mean).toBeCloseTo(Math.exp(logProb), 6)
      }),
    )
  })
})

const writtenTexts = new Map<string, readonly string[]>()

/** All texts that a coordinate can have. */
function writtenBy(form: NumberForm): readonly string[] {
  return getOrMake(writtenTexts, JSON.stringify(form), () => textsOf(form))
}

function textsOf({ most, digits = 0, decimals = 0 }: NumberForm): readonly string[] {
  const scale = 10 ** decimals
  const values = Array.from({ length: most * scale + 1 }, (_, index) => index / scale)
  return values.flatMap((value) =>
    Array.from({ length: decimals + 1 }, (_, places) => value.toFixed(places))
      .filter((text) => Number(text) === value)
      .map((text) => text.padStart(digits, '0')),
  )
}

function evidenceBy(
  name: keyof typeof DIALECTS,
  kind: DetectionKind,
  tokens: readonly RatedToken[],
  end: RatedToken | null,
  isCut = false,
): AnswerEvidence {
  const { detection, reader } = DIALECTS[name]
  return evidenceIn({ tokens, end, isCut }, detection.form(kind, scene), reader(scene))
}

test('points that share a tag', () => {
  const rated = (tokens: readonly RatedToken[], end: RatedToken | null) => evidenceBy('molmo', 'point', tokens, end)
  const three = '<points x1="10.5" y1="20" x2="30" y2="40" x3="50" y3="60" alt="cup">cup</points>'
  fc.assert(
    fc.property(sizes, mass, (cuts, mass) => {
      const turn = { at: three.indexOf(' x3') + 1, text: 'alt="cup"', mass }
      const { tokens, end } = tokensOf(three, cuts, turn)
      expectPlaces(rated(tokens, end), [{}, {}, { begin: 1 - mass }])
      const more = { at: three.indexOf(' alt') + 1, text: 'x4="1"', mass }
      const longer = tokensOf(three, cuts, more)
      expect(rated(longer.tokens, longer.end).more).toBeCloseTo(mass, 6)
    }),
  )
})

test('boxes that share a name', () => {
  const rated = (tokens: readonly RatedToken[], end: RatedToken | null) => evidenceBy('internvl', 'box', tokens, end)
  const two = '<ref>cup</ref><box>[[1, 2, 3, 4], [5, 6, 7, 8]]</box>'
  fc.assert(
    fc.property(sizes, mass, (cuts, mass) => {
      const { tokens, end } = tokensOf(two, cuts, { at: two.indexOf(']]'), text: '], [', mass })
      expect(rated(tokens, end).more).toBeCloseTo(mass, 6)
      expectPlaces(rated(tokens, end), [{}, {}])
    }),
  )
})

test('what was cut says nothing of its end', () => {
  const { tokens } = tokensOf('<point_box mention="a"> (1,2) (3,4) </point_box>\n<point_box', fc.sample(sizes, 1)[0]!)
  expect(evidenceBy('markup', 'box', tokens, null, true).more).toBe(null)
  expect(evidenceBy('markup', 'box', [], null, true)).toEqual({ places: [], more: null })
})

test.each([
  ['qwen3-vl', '[{"bbox_2d": [-2, 20, 30, 40], "label": "a"}, {"bbox_2d": [1, 2, 3, 4], "label": "b"}]', [1, 0.5]],
  [
    'qwen3-vl',
    '[{"bbox_2d": [9, 20, 30, 40], "label": "a", "of": {"x": 1}}, {"bbox_2d": [1, 2, 3, 4], "label": "b"}]',
    [1, 0.5],
  ],
  ['qwen3-vl', '[{"id": 1, "bbox_2d": [9, 20, 30, 40], "label": "a"}, {"bbox_2d": [1, 2, 3, 4], "label": "b"}]', [0.5]],
  [
    'qwen3-vl',
    '[{"bbox_2d": [9, 20, 30, 40], "of": [{"x": [{}]}]}, {"bbox_2d": [1, 2, 3, 4], "label": "b"}]',
    [null, 0.5],
  ],
  ['internvl', 'A list of [7, 8, 9, 9] and <ref>b</ref><box>[[1, 2, 3, 4]]</box>', [0.5]],
] as const)('%s: an object has its own evidence beside what only one of both finds: %s', (name, text, expected) => {
  const at = text.indexOf('2, 3, 4]')
  fc.assert(
    fc.property(sizes, (cuts) => {
      const { tokens, end } = tokensOf(text, cuts, { at, text: '9', mass: 0.5 })
      const { places } = evidenceBy(name, 'box', tokens, end)
      const near = expected.map((one) => (one === 0.5 ? expect.closeTo(1 - 0.5 / 4, 6) : one))
      expect(places.map(({ evidence }) => evidence?.near ?? null)).toEqual(near)
    }),
  )
})
