import type { Annotation, Attributes, Prose } from '../annotation.ts'
import { alike, linesGoOn, numbersOf } from '../answer-form.ts'
import {
  type AnnotationReader,
  type DetectionKind,
  type Dialect,
  escapePattern,
  GRID_NUMBER,
  type Scene,
  type TagRules,
} from '../dialect.ts'
import { type AnnotationFormat, formatHint } from '../hints.ts'
import { GrowingAnnotation, parseAnnotation } from '../markup-parser.ts'
import { escapeText, formatLeaf } from '../markup-writer.ts'
import { normalised } from '../normal.ts'
import { endsInName, TAG } from '../prose-guard.ts'
import { type Notation, PROSE, type Reading, SpanReader, spaced, UNCLEAR } from '../span-reader.ts'

const TAG_OF = { point: 'point', box: 'point_box', polygon: 'polygon', clip: 'clip' } as const
const PAIR = `\\(${GRID_NUMBER},${GRID_NUMBER}\\)`
const BODY = { point: `${PAIR} `, box: `${PAIR} ${PAIR} `, polygon: `${PAIR} ${PAIR} (?:${PAIR} )+` } as const
const MENTION = `(?:[^"&<>'\\x00-\\x1f\\x7f]|&(?:amp|lt|gt|quot|#x27);)+`
const SECONDS = '[0-9]{1,5}(?:\\.[0-9]{1,6})? seconds'

/** The model's answer when it finds none of the objects. */
const NOTHING = 'None.'

/**
 * The contract's own markup, which the service's own models write. It is requested by a hint, or by the prompt that
 * `training/` teaches: `Detect: red circle, heart`. The answer to that prompt has one leaf per line.
 */
export const markup: Dialect = {
  formats: ['point', 'box', 'polygon', 'clip'],
  instruction: formatHint,

  tags(format, scene): TagRules {
    const end = format === 'clip' ? '/>' : `</${TAG_OF[format]}>`
    // Every leaf starts with `<po`, so the tags below restrict a reply to leaves of one kind: some clients parse no
    // others.
    const trigger = format === 'clip' ? '<cl' : '<po'
    return { triggers: [trigger], tags: [{ begin: `<${TAG_OF[format]}`, pattern: bodyPattern(format, scene), end }] }
  },

  reader: (scene) => new SpanReader(new Markup(scene)),

  detection: {
    instruction: formatHint,
    question: (_kind, labels) => (labels === null ? 'Detect all objects.' : `Detect: ${labels.join(', ')}`),
    answer: (leaves) => (leaves.length === 0 ? NOTHING : leaves.map(formatLeaf).join('\n')),
    // There may be many labels, so the pattern contains them only once.
    pattern: (kind, labels) => `${escapePattern(NOTHING)}|(?:${leafPattern(kind, labels)}\\n?)+`,
    another: (kind, labels, _scene, isFirst) => `${isFirst ? '' : '\\n'}${leafPattern(kind, labels)}`,
    form: (kind) => ({
      object: new RegExp(
        `<${TAG_OF[kind]}\\b[^<>]*>${PLACE.repeat(kind === 'point' ? 1 : 2)}\\s*</[a-z_]+\\s*>`,
        'dgi',
      ),
      numbers: numbersOf(kind, alike({ most: 1000 })),
      goesOn: linesGoOn('<'),
    }),
  },
}

function leafPattern(kind: DetectionKind, labels: readonly string[] | null): string {
  const mention = labels === null ? MENTION : `(?:${labels.map(escapeText).map(escapePattern).join('|')})`
  return `<${TAG_OF[kind]} mention="${mention}"> ${BODY[kind]}</${TAG_OF[kind]}>`
}

const PLACE = '\\s*\\(\\s*(\\d+)\\s*,\\s*(\\d+)\\s*\\)'

/** Reads markup in a text for which it was not requested: everything but annotations remains unchanged. */
export function freeMarkupReader(scene: Scene): AnnotationReader {
  return new SpanReader(new Markup(scene), { guarded: false })
}

function bodyPattern(format: AnnotationFormat, { assets, choices, timed }: Scene): string {
  const numbers = choices ?? Array.from({ length: assets }, (_, index) => index)
  const index = ` asset_idx="(?:${numbers.join('|')})"`
  const asset = choices !== undefined ? index : assets > 1 ? `(?:${index})?` : ''
  if (format === 'clip') return `(?: mention="${MENTION}")?${asset} t="${SECONDS}(?: ${SECONDS})?" `
  const time = timed ? `(?: t="${SECONDS}")?` : ''
  return `(?: mention="${MENTION}")?${time}${asset}> ${BODY[format]}`
}

/** What may precede the first member of a collection. */
const LIST_MARK = /^[\s*\u2022-]*/
const OPENING = /^<collection(?:[^<>"']|"[^"<\r\n]*"|'[^'<\r\n]*')*>/i
const CLOSING = /^<\/collection\s*(>?)/i

/** The attributes that members of a collection inherit if they have none of their own. */
type Inherited = Attributes & { readonly t?: number }

/**
 * Reads markup that a model wrote. It emits leaves one by one, so members of a collection are emitted separately, with
 * the attributes that they inherit from it. A track is emitted as a whole.
 */
class Markup implements Notation {
  readonly #scene: Scene
  /** Attributes of the open collection; null when none is open. */
  #collection: Inherited | null = null
  /** Whether the closing tag is still missing of a collection that contains another tag. */
  #isLeft = false
  readonly #pending = new GrowingAnnotation()

  constructor(scene: Scene) {
    this.#scene = scene
  }

  next(text: string, from: number): number {
    return text.indexOf('<', from)
  }

  read(text: string): Reading {
    const reading = this.#reading(text)
    // Words and list marks may stand between members, but no other tags.
    if (reading.type === 'prose' && this.#collection && /^<[/!?a-z]/i.test(text)) {
      this.#collection = null
      this.#isLeft = true
    }
    return reading
  }

  #reading(text: string): Reading {
    const tag = TAG.exec(text)
    if (!tag) return text.lastIndexOf('<') === 0 && endsInName(text) ? UNCLEAR : PROSE
    const name = tag[2]!.toLowerCase()
    if (name === 'collection') return tag[1] ? this.#closing(text) : this.#opening(text)
    if (tag[1]) return PROSE
    const found = this.#pending.find(text)
    if (found === null) return PROSE
    if (found !== 'unclear') return { type: 'span', length: found.end, pieces: this.#pieces(found.annotation) }
    const inherited = this.#collection
    return { type: 'partial', salvage: () => this.#salvaged(inherited) }
  }

  /** @param inherited attributes of the collection that a track is in. */
  #salvaged(inherited: Inherited | null): (Prose | Annotation)[] {
    const whole = this.#pending.track()
    return whole ? this.#pieces({ ...inherited, ...whole } as Annotation) : []
  }

  /** A tag opens a collection only if a member or the closing tag follows: otherwise it has another meaning. */
  #opening(text: string): Reading {
    if (this.#collection) return PROSE
    const tag = OPENING.exec(text)?.[0]
    if (tag === undefined) return this.#pending.find(text) === 'unclear' ? UNCLEAR : PROSE
    // Parsing a collection with one point yields its attributes.
    const probe = parseAnnotation(`${tag}<point>(0,0)</point></collection>`)
    if (probe?.kind !== 'collection') return PROSE
    const inherited = { ...own(probe), ...(probe.t === undefined ? {} : { t: probe.t }) }
    this.#collection = inherited
    const inside = text.slice(tag.length).replace(LIST_MARK, '')
    const first = inside === '' ? UNCLEAR : this.#reading(inside)
    this.#collection = first.type === 'span' ? inherited : null
    return first.type === 'span' ? { type: 'span', length: tag.length, pieces: [] } : first
  }

  #closing(text: string): Reading {
    const tag = CLOSING.exec(text)!
    if (!tag[1]) return tag[0].length === text.length ? UNCLEAR : PROSE
    if (!this.#collection && !this.#isLeft) return PROSE
    this.#collection = null
    this.#isLeft = false
    return { type: 'span', length: tag[0].length, pieces: [] }
  }

  /** Adds the attributes of the open collection and removes those that do not apply to the request. */
  #pieces(annotation: Annotation): (Prose | Annotation)[] {
    const whole = { ...this.#collection, ...annotation } as Annotation
    if (whole.kind !== 'track' || this.#scene.timed) return [normalised(whole, this.#scene)]
    // Without times there is no track, only leaves.
    return spaced(whole.waypoints.map((waypoint) => normalised({ ...own(whole), ...waypoint }, this.#scene)))
  }
}

function own({ mention, assetIdx }: Attributes): Attributes {
  return { ...(mention === undefined ? {} : { mention }), ...(assetIdx === undefined ? {} : { assetIdx }) }
}
