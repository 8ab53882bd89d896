import type { Annotation, Attributes, GridPoint, Leaf } from '../annotation.ts'
import { alike } from '../answer-form.ts'
import { type Dialect, escapePattern, type Scene } from '../dialect.ts'
import { unescapeText } from '../markup-parser.ts'
import { escapeText } from '../markup-writer.ts'
import { normalised } from '../normal.ts'
import { PROSE, type Reading, SpanReader, spaced, startingWith, UNCLEAR } from '../span-reader.ts'
import { NAME, NOTHING, namePattern, runs, tagGoesOn } from './molmo.ts'

const NUMBER = '(?:[0-9]{3}|1000)'
const PLACE = `[0-9]{1,3} ${NUMBER} ${NUMBER}`
/** The number of an image, from 1, or seconds; then the number, x and y of each thing. */
const FRAME = `[0-9]{1,4}(?:\\.[0-9])?(?: ${PLACE})+`
const FRAMES = `${FRAME}(?:;${FRAME})*`
/** More things could not be numbered with three digits. */
const MOST_THINGS = 999

/**
 * Molmo 2: points on a grid of 0..1000, with three digits, after the number of the image or the time, and a number for
 * each thing. `<points coords="1 1 073 160 2 173 600">cups</points>`; tracks in a video are `<tracks coords="0.0 1 635
 * 522;0.5 1 606 490">cup</tracks>`. It has no boxes. Its technical report, appendix "Pointing".
 */
export const molmo2: Dialect = {
  formats: ['point'],
  instruction: () => 'Whenever you refer to something in an image, point to it.',
  tags: () => ({
    triggers: ['<points'],
    tags: [{ begin: '<points coords="', pattern: `${FRAMES}">${NAME}`, end: '</points>' }],
  }),
  reader: (scene) => new SpanReader(startingWith('<', (text) => read(text, scene))),
  detection: {
    instruction: () => null,
    question: (_kind, labels) => (labels === null ? 'Point to every object.' : `Point to every ${labels.join(', ')}.`),
    answer(leaves, { timed }) {
      const tags = runs(leaves, MOST_THINGS).map((run) => tagOf(run, timed))
      return leaves.length === 0 ? NOTHING : tags.join('\n')
    },
    pattern: (_kind, labels) =>
      `${escapePattern(NOTHING)}|(?:<points coords="${FRAMES}">${namePattern(labels)}<\\/points>\\n?)+`,
    another(_kind, labels, _scene, isFirst) {
      const name = namePattern(labels)
      return `${isFirst ? '' : `">${name}<\\/points>\\n`}<points coords="1 ${PLACE}">${name}<\\/points>`
    },
    form: () => ({
      object: /\d{1,3} (\d{3,4}) (\d{3,4})/dg,
      numbers: alike({ most: 1000, digits: 3 }),
      goesOn: (text, isFirst) => tagGoesOn(text, isFirst, /^\d*[;\s]/),
    }),
  },
}

/** @param timed whether the places are in a video, whose frames are identified by seconds; images are by numbers. */
function tagOf(leaves: readonly Leaf[], timed: boolean): string {
  const digits = (value: number) => String(value).padStart(3, '0')
  const places = leaves.map(({ points: [point], t }, index) => ({
    frame: timed && t !== undefined ? t.toFixed(1) : '1',
    text: `${index + 1} ${digits(point!.x)} ${digits(point!.y)}`,
  }))
  const frames = [...Map.groupBy(places, ({ frame }) => frame)]
  const coordinates = frames.map(([frame, own]) => `${frame} ${own.map(({ text }) => text).join(' ')}`)
  return `<points coords="${coordinates.join(';')}">${escapeText(leaves[0]!.mention ?? '')}</points>`
}

const WHOLE = /^<(points|tracks)\s+coords="([^"<>]*)"(?:\s+alt="([^"<>]*)")?\s*(?:\/>|>([^<]*)<\/\1>)/
const BEGUN =
  /^<(?:[a-z]{0,5}|(?:points|tracks)(?:\s+[a-z]+="[^"<>]*")*(?:\s+(?:[a-z]+(?:=(?:"[^"<>]*)?)?)?|\s*(?:\/|>[^<]*(?:<(?:\/[a-z]*)?)?))?)$/

function read(text: string, scene: Scene): Reading {
  const whole = WHOLE.exec(text)
  const places = whole && placesIn(whole[2]!)
  if (!places) return !whole && ['points', 'tracks'].some((tag) => isBegun(text, tag)) ? UNCLEAR : PROSE
  const [, tag, , alt, inner = ''] = whole
  const mention = unescapeText(inner || (alt ?? ''))
  const named = mention === '' ? {} : { mention }
  const found = tag === 'tracks' && scene.timed ? tracks(places, named) : points(places, named, scene)
  const pieces = spaced(found.map((annotation) => normalised(annotation, scene)))
  return { type: 'span', length: whole[0].length, pieces }
}

function points(places: readonly Place[], named: Attributes, { timed }: Scene): Annotation[] {
  return places.map(({ frame, point }) => {
    // Frames are identified by seconds in a video; images are numbered from 1.
    const where = timed ? { t: frame } : { assetIdx: Math.max(0, Math.round(frame) - 1) }
    return { kind: 'point', ...named, points: [point], ...where }
  })
}

function tracks(places: readonly Place[], named: Attributes): Annotation[] {
  const things = [...Map.groupBy(places, ({ thing }) => thing).values()]
  return things.map((waypoints) => ({
    kind: 'track',
    ...named,
    waypoints: waypoints.map(({ frame, point }) => ({ kind: 'point', points: [point], t: frame })),
  }))
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

/** Null for numbers that are not places on an image. */
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
