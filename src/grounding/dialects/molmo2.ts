import type { Annotation, GridPoint, Leaf, Prose } from '../annotation.ts'
import { type Dialect, escapePattern, type Scene } from '../dialect.ts'
import { unescapeText } from '../markup-parser.ts'
import { escapeText } from '../markup-writer.ts'
import { normalised } from '../normal.ts'
import { type Notation, PROSE, type Reading, SpanReader, UNCLEAR } from '../span-reader.ts'

const NUMBER = '(?:[0-9]{3}|1000)'
const PLACE = `[0-9]{1,3} ${NUMBER} ${NUMBER}`
/** The number of an image, from 1, or seconds, and then the number, x and y of each thing. */
const FRAME = `[0-9]{1,4}(?:\\.[0-9])?(?: ${PLACE})+`
const FRAMES = `${FRAME}(?:;${FRAME})*`
const NAME = `(?:[^"&<>'\\x00-\\x1f\\x7f]|&(?:amp|lt|gt|quot|#x27);)+`
const NOTHING = 'There are none.'

/**
 * Molmo 2: points on a grid of 0..1000, with three digits, after the number of the image or the time, and a number for each
 * thing. `<points coords="1 1 073 160 2 173 600">cups</points>`; in a video, what is followed through time is
 * `<tracks coords="0.0 1 635 522;0.5 1 606 490">cup</tracks>`. It has no boxes. Its technical report, appendix "Pointing".
 */
export const molmo2: Dialect = {
  formats: ['point'],
  instruction: () => 'Whenever you refer to something in an image, point to it.',
  tags: () => ({
    triggers: ['<points'],
    tags: [{ begin: '<points coords="', pattern: `${FRAMES}">${NAME}`, end: '</points>' }],
  }),
  reader: (scene) => new SpanReader(new Molmo2Notation(scene)),
  detection: {
    instruction: () => null,
    question: (_kind, labels) => (labels === null ? 'Point to every object.' : `Point to every ${labels.join(', ')}.`),
    answer: (leaves) => (leaves.length === 0 ? NOTHING : runs(leaves).map(tagOf).join('\n')),
    pattern(_kind, labels) {
      const name = labels === null ? NAME : `(?:${labels.map(escapeText).map(escapePattern).join('|')})`
      return `${escapePattern(NOTHING)}|(?:<points coords="${FRAMES}">${name}<\\/points>\\n?)+`
    },
  },
}

/** Groups consecutive leaves with the same mention, which share one tag. */
function runs(leaves: readonly Leaf[]): Leaf[][] {
  const result: Leaf[][] = []
  for (const leaf of leaves) {
    const last = result.at(-1)
    if (last && last.length < MOST_THINGS && last[0]!.mention === leaf.mention) last.push(leaf)
    else result.push([leaf])
  }
  return result
}

/** More would not be numbered in three digits. */
const MOST_THINGS = 999

function tagOf(leaves: readonly Leaf[]): string {
  const digits = (value: number) => String(value).padStart(3, '0')
  const places = leaves.map(({ points: [point] }, index) => `${index + 1} ${digits(point!.x)} ${digits(point!.y)}`)
  return `<points coords="1 ${places.join(' ')}">${escapeText(leaves[0]!.mention ?? '')}</points>`
}

const WHOLE = /^<(points|tracks)\s+coords="([^"<>]*)"(?:\s+alt="([^"<>]*)")?\s*(?:\/>|>([^<]*)<\/\1>)/
const BEGUN =
  /^<(?:[a-z]{0,5}|(?:points|tracks)(?:\s+[a-z]*(?:=(?:"[^"<>]*"?)?)?)*\s*(?:\/|>[^<]*(?:<(?:\/[a-z]*)?)?)?)$/

class Molmo2Notation implements Notation {
  readonly #scene: Scene

  constructor(scene: Scene) {
    this.#scene = scene
  }

  next(text: string, from: number): number {
    return text.indexOf('<', from)
  }

  read(text: string): Reading {
    const whole = WHOLE.exec(text)
    const places = whole && placesIn(whole[2]!)
    if (places) {
      const [, tag, , alt, inner = ''] = whole
      const mention = unescapeText(inner || (alt ?? ''))
      const pieces =
        tag === 'tracks' && this.#scene.timed ? this.#tracks(places, mention) : this.#points(places, mention)
      return { type: 'span', length: whole[0].length, pieces: spaced(pieces) }
    }
    return whole === null && 'points tracks'.split(' ').some((tag) => isBegun(text, tag)) ? UNCLEAR : PROSE
  }

  #points(places: readonly Place[], mention: string): Annotation[] {
    const { timed } = this.#scene
    return places.map(({ frame, point }) => {
      // Frames are numbered seconds in a video, and images from 1.
      const where = timed ? { t: frame } : { assetIdx: Math.max(0, Math.round(frame) - 1) }
      return normalised({ kind: 'point', ...named(mention), points: [point], ...where }, this.#scene)
    })
  }

  #tracks(places: readonly Place[], mention: string): Annotation[] {
    const things = Map.groupBy(places, ({ thing }) => thing)
    return [...things.values()].map((waypoints) =>
      normalised(
        {
          kind: 'track',
          ...named(mention),
          waypoints: waypoints.map(({ frame, point }): Leaf => ({ kind: 'point', points: [point], t: frame })),
        },
        this.#scene,
      ),
    )
  }
}

function named(mention: string): { readonly mention?: string } {
  return mention === '' ? {} : { mention }
}

function spaced(pieces: readonly Annotation[]): (Prose | Annotation)[] {
  return pieces.flatMap((piece, index) => (index > 0 ? [{ kind: 'prose' as const, text: ' ' }, piece] : [piece]))
}

function isBegun(text: string, tag: string): boolean {
  return text.length <= tag.length ? `<${tag}`.startsWith(text) : text.startsWith(`<${tag}`) && BEGUN.test(text)
}

interface Place {
  /** The number of the image, or seconds. */
  readonly frame: number
  readonly thing: string
  readonly point: GridPoint
}

/** Null for numbers that are no places on an image. */
function placesIn(coordinates: string): Place[] | null {
  const places: Place[] = []
  for (const part of coordinates.split(/[;\t]/)) {
    const [frame, ...rest] = part.trim().split(/[\s,:]+/)
    if (frame === undefined || rest.length === 0 || rest.length % 3 !== 0 || !/^\d{1,6}(?:\.\d+)?$/.test(frame))
      return null
    for (let at = 0; at < rest.length; at += 3) {
      const [thing, x, y] = rest.slice(at, at + 3) as [string, string, string]
      if (![thing, x, y].every((number) => /^\d{1,4}$/.test(number)) || Number(x) > 1000 || Number(y) > 1000)
        return null
      places.push({ frame: Number(frame), thing, point: { x: Number(x), y: Number(y) } })
    }
  }
  return places
}
