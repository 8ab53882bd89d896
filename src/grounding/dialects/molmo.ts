import type { GridPoint, Leaf } from '../annotation.ts'
import { alike, COORDINATE, linesGoOn } from '../answer-form.ts'
import { type Dialect, escapePattern, type Scene } from '../dialect.ts'
import { unescapeText } from '../markup-parser.ts'
import { escapeText } from '../markup-writer.ts'
import { normalised } from '../normal.ts'
import { PROSE, type Reading, SpanReader, spaced, startingWith, UNCLEAR } from '../span-reader.ts'

const PERCENT = '(?:100(?:\\.0)?|[1-9]?[0-9](?:\\.[0-9])?)'
export const NAME = `(?:[^"&<>'\\x00-\\x1f\\x7f]|&(?:amp|lt|gt|quot|#x27);)+`
export const NOTHING = 'There are none.'

/**
 * Molmo: points in percent of the image's sides. `<point x="61.5" y="40.4" alt="cup">cup</point>`, and for several
 * `<points x1="61.5" y1="40.4" x2="20" y2="7.1" alt="cups">cups</points>`. It has no boxes.
 */
export const molmo: Dialect = {
  formats: ['point'],
  instruction: () => 'Whenever you refer to something in an image, point to it.',
  tags: () => ({
    triggers: ['<po'],
    tags: [
      { begin: '<point ', pattern: `x="${PERCENT}" y="${PERCENT}" alt="${NAME}">[^<]*`, end: '</point>' },
      { begin: '<points', pattern: `${numbered()} alt="${NAME}">[^<]*`, end: '</points>' },
    ],
  }),
  reader: (scene) => new SpanReader(startingWith('<', (text) => read(text, scene))),
  detection: {
    instruction: () => null,
    question: (_kind, labels) => (labels === null ? 'Point to every object.' : `Point to every ${labels.join(', ')}.`),
    answer: (leaves) => (leaves.length === 0 ? NOTHING : runs(leaves).map(tagOf).join('\n')),
    pattern(_kind, labels) {
      const name = namePattern(labels)
      const single = ` x="${PERCENT}" y="${PERCENT}"`
      return `${escapePattern(NOTHING)}|(?:<point(?:${single}|s${numbered()}) alt="${name}">[^<]*<\\/points?>\\n?)+`
    },
    another(_kind, labels, _scene, isFirst) {
      const name = namePattern(labels)
      const closed = isFirst ? '' : ` alt="${name}">[^<]*<\\/points?>\\n`
      return `${closed}<point x="${PERCENT}" y="${PERCENT}" alt="${name}">[^<]*<\\/point>`
    },
    form: () => ({
      object: new RegExp(`x\\d*\\s*=\\s*"\\s*${COORDINATE}\\s*"\\s+y\\d*\\s*=\\s*"\\s*${COORDINATE}\\s*"`, 'dg'),
      numbers: alike({ most: 100, decimals: 1 }),
      goesOn: (text, isFirst) => tagGoesOn(text, isFirst, /^\s+x/),
    }),
  },
}

/** The pattern of a name in a tag. */
export function namePattern(labels: readonly string[] | null): string {
  return labels === null ? NAME : `(?:${labels.map(escapeText).map(escapePattern).join('|')})`
}

const LINES = linesGoOn('<')

/** @param another matches the beginning of another point in the same tag. */
export function tagGoesOn(text: string, isFirst: boolean, another: RegExp): boolean | null {
  const closed = /^[^<]*<\/\w+>/.exec(text)
  if (isFirst || closed !== null) return LINES(closed === null ? text : text.slice(closed[0].length), isFirst)
  return /^\d*\s*$/.test(text) ? null : another.test(text)
}

function numbered(): string {
  return `(?: x[0-9]{1,3}="${PERCENT}" y[0-9]{1,3}="${PERCENT}")+`
}

/** Groups consecutive leaves with the same mention, which share one tag, up to a maximum. */
export function runs(leaves: readonly Leaf[], most = Number.POSITIVE_INFINITY): Leaf[][] {
  const result: Leaf[][] = []
  for (const leaf of leaves) {
    const last = result.at(-1)
    if (last && last.length < most && last[0]!.mention === leaf.mention) last.push(leaf)
    else result.push([leaf])
  }
  return result
}

function tagOf(leaves: readonly Leaf[]): string {
  const name = escapeText(leaves[0]!.mention ?? '')
  const several = leaves.length > 1
  const places = leaves.map(({ points }, i) => {
    const { x, y } = points[0]!
    const number = several ? i + 1 : ''
    return ` x${number}="${x / 10}" y${number}="${y / 10}"`
  })
  const tag = several ? 'points' : 'point'
  return `<${tag}${places.join('')} alt="${name}">${name}</${tag}>`
}

const WHOLE = /^<points?((?:\s+[xy]\d*\s*=\s*"[^"<>]*")+)(?:\s+alt="([^"<>]*)")?\s*>([^<]*)<\/points?>/
const BEGUN =
  /^<(?:p?|po|poi|poin|points?(?:\s+[a-z]+\d*\s*=\s*"[^"<>]*")*(?:\s+(?:[a-z]+\d*\s*(?:=\s*(?:"[^"<>]*)?)?)?|\s*>[^<]*(?:<(?:\/[a-z]*)?)?)?)$/
const PLACE = /([xy])\d*\s*=\s*"\s*(\d+(?:\.\d+)?)\s*"/g

function read(text: string, scene: Scene): Reading {
  const whole = WHOLE.exec(text)
  const points = whole && pointsIn(whole[1]!)
  if (!points) return !whole && BEGUN.test(text) ? UNCLEAR : PROSE
  const mention = unescapeText(whole[2] ?? whole[3]!)
  const leaf = (point: GridPoint): Leaf => ({ kind: 'point', ...(mention ? { mention } : {}), points: [point] })
  const pieces = spaced(points.map((point) => normalised(leaf(point), scene)))
  return { type: 'span', length: whole[0].length, pieces }
}

/** Parses the points in a tag's attributes; null when they are malformed or outside the image. */
function pointsIn(places: string): GridPoint[] | null {
  const numbers = [...places.matchAll(PLACE)]
  const points: GridPoint[] = []
  for (let i = 0; i + 1 < numbers.length; i += 2) {
    const [x, y] = [numbers[i]!, numbers[i + 1]!]
    if (x[1] !== 'x' || y[1] !== 'y') return null
    points.push({ x: Math.round(Number(x[2]) * 10), y: Math.round(Number(y[2]) * 10) })
  }
  return points.length > 0 && points.every(({ x, y }) => x <= 1000 && y <= 1000) ? points : null
}
