import type { Annotation, Prose } from './annotation.ts'
import type { AnswerForm, NumberForm } from './answer-form.ts'
import type { AnnotationReader } from './dialect.ts'

/** How sure a model was of an object; each value is from 0 to 1. */
export interface PlaceEvidence {
  /** The probability of beginning another object here, rather than ending the list. */
  readonly begin: number
  /** The probability mass of digits that keep a coordinate near the written one, averaged over the coordinates. */
  readonly near: number
  /** The geometric mean of the probabilities of the coordinates' digits. */
  readonly mean: number
}

/** An answer with the probabilities of its tokens. */
export interface RatedAnswer {
  readonly tokens: readonly RatedToken[]
  /** The token with which the model ended its turn; null if unknown, or if the answer was truncated. */
  readonly end: RatedToken | null
  readonly isCut: boolean
}

/** How sure a model was of a list of objects. */
export interface AnswerEvidence {
  /**
   * The annotations that the reader finds in the answer, in order, each with its evidence; null if the form does not
   * find it.
   */
  readonly places: readonly { readonly annotation: Annotation; readonly evidence: PlaceEvidence | null }[]
  /** The probability of continuing where the list ended; null if the answer was truncated before its end. */
  readonly more: number | null
}

/** How sure a model was of an answer with at most one place. */
export interface OnePlaceEvidence extends Pick<AnswerEvidence, 'more'> {
  readonly place: PlaceEvidence | null
}

/** A token and its likely alternatives: natural logarithms, and the bytes that a token prints. */
export interface RatedToken extends Rated {
  readonly top: readonly Rated[]
}

interface Rated {
  readonly bytes: readonly number[]
  readonly logProb: number
}

/** Coordinates are near each other if they differ by at most this fraction of the box's side. */
const NEAR = 0.12
/** The same for a point, which has no side, as a fraction of the image's side. */
const NEAR_POINT = 0.025
/** The minimum of both, as a fraction of the image's side. */
const LEAST = 0.002

/**
 * Reads how sure a model was of the objects in its answer. The result does not depend on how the text is split into
 * tokens, as far as their alternatives print the same texts.
 * @param reader a fresh one, of the dialect that has the form.
 */
export function evidenceIn(
  { tokens, end, isCut }: RatedAnswer,
  form: AnswerForm,
  reader: AnnotationReader,
): AnswerEvidence {
  const answer = new RatedText(end === null ? tokens : [...tokens, end])
  const places: AnswerEvidence['places'][number][] = []
  const decoder = new TextDecoder('utf-8', { ignoreBOM: true })
  /** Objects of the form that the reader has not found yet. */
  let waiting: PlaceEvidence[] = []
  // The form and the reader may each find objects that the other does not. A reader finds an object once the next one
  // begins, and those in one mark at its end.
  const pair = (found: readonly (Prose | Annotation)[]) => {
    const annotations = found.filter((one) => one.kind !== 'prose')
    if (annotations.length === 0) return
    const own = waiting.slice(-annotations.length)
    for (const [index, annotation] of annotations.entries()) places.push({ annotation, evidence: own[index] ?? null })
    waiting = []
  }
  const read = (from: number, to?: number) => {
    pair(reader.push(decoder.decode(Buffer.from(answer.text.slice(from, to), 'latin1'), { stream: true })))
  }
  let [readTo, from] = [0, 0]
  let count = 0
  for (const match of answer.text.matchAll(form.object)) {
    read(readTo, match.index + 1)
    readTo = match.index + 1
    const spans = match.indices!.slice(1) as Span[]
    const isFirst = count++ === 0
    const begin = 1 - answer.turns(from, spans[0]![0], (text) => form.goesOn(text, isFirst), false)
    from = match.index + match[0].length
    waiting.push({ begin, near: nearness(answer, spans, form.numbers), mean: meanOf(answer, spans) })
  }
  read(readTo)
  pair(reader.end(isCut))
  const goesOn = (text: string) => form.goesOn(text, count === 0)
  const isOver = end !== null || goesOn(answer.text.slice(from)) === false
  return { places, more: isOver ? answer.turns(from, answer.text.length + 1, goesOn, true) : null }
}

type Span = readonly [start: number, end: number]

/** The tokens of an answer with their positions in its bytes. */
class RatedText {
  readonly text: string
  readonly #tokens: readonly { readonly start: number; readonly end: number; readonly rated: RatedToken }[]

  constructor(tokens: readonly RatedToken[]) {
    let text = ''
    this.#tokens = tokens.map((rated) => {
      const start = text.length
      text += textOf(rated)
      return { start, end: text.length, rated }
    })
    this.text = text
  }

  /** Tokens that print a part of a span, and tokens without text at its start or inside it. */
  *at([from, to]: Span): Generator<{ readonly start: number; readonly rated: RatedToken }, void, void> {
    for (const token of this.#tokens) {
      if (token.start < to && (token.end > from || (token.start === token.end && token.start >= from))) yield token
    }
  }

  /**
   * The probability that the text would have taken another course somewhere in a span.
   * @param reads classifies the text from the start of the span; null while it is undecided.
   * @param other the result of `reads` for the other course.
   */
  turns(from: number, to: number, reads: (text: string) => boolean | null, other: boolean): number {
    let stays = 1
    // Includes a token that ends where the span starts: an alternative may extend into the span.
    for (const { start, rated } of this.at([from - 1, to])) {
      const before = start < from ? null : reads(this.text.slice(from, start))
      if (before !== null && (before === other || !other)) continue
      let mass = 0
      for (const alternative of alternativesOf(rated)) {
        const text = this.#continued(alternative, start, from)
        // A token without text ends the answer.
        const said = text === null ? null : textOf(alternative) === '' ? false : reads(text)
        if (said === other) mass += Math.exp(alternative.logProb)
      }
      stays *= Math.max(0, 1 - mass)
    }
    return 1 - stays
  }

  /**
   * The text from `from` on if it had another token at `start`; null if that token changes the text before `from`, or
   * does not reach it.
   */
  #continued(alternative: Rated, start: number, from: number): string | null {
    const written = textOf(alternative)
    if (start >= from) return this.text.slice(from, start) + written
    const lead = this.text.slice(start, from)
    return written.startsWith(lead) && written.length > lead.length ? written.slice(lead.length) : null
  }

  /**
   * The probability mass of tokens that keep a number near the written one, given the text before them.
   * @param isNear whether a prefix of a number may still be near.
   */
  massNear([from, to]: Span, isNear: (beginning: string) => boolean): number {
    let near = 1
    // Includes the token after the number: another digit would have changed the number.
    for (const { start, rated } of this.at([from, to + 1])) {
      const lead = this.text.slice(start, from)
      let [kept, elsewhere] = [0, 0]
      for (const one of [rated, ...alternativesOf(rated)]) {
        const written = textOf(one)
        const mass = Math.exp(one.logProb)
        if (start < from && !written.startsWith(lead)) {
          if (written !== '' && lead.startsWith(written)) kept += mass
          else elsewhere += mass
        } else if (isNear(start < from ? written.slice(lead.length) : this.text.slice(from, start) + written))
          kept += mass
      }
      near *= elsewhere >= 1 ? 1 : Math.min(1, kept / (1 - elsewhere))
    }
    return near
  }
}

function textOf({ bytes }: Rated): string {
  return String.fromCharCode(...bytes)
}

/** The alternatives to a token. Several may print the same text. */
function alternativesOf(rated: RatedToken): readonly Rated[] {
  return rated.top.filter((other) => other.logProb !== rated.logProb || textOf(other) !== textOf(rated))
}

/** The mean over the coordinates of the probability mass near them. */
function nearness(answer: RatedText, spans: readonly Span[], numbers: readonly NumberForm[]): number {
  // Readers move coordinates outside the picture to its edge.
  const values = spans.map(([from, to]) => Math.max(0, Number(answer.text.slice(from, to))))
  const masses = spans.map((span, index) => {
    const form = numbers[index]!
    const opposite = numbers.findIndex(({ axis }, other) => other !== index && axis === form.axis)
    const side = opposite === -1 ? null : Math.abs(values[opposite]! - values[index]!)
    const within = Math.max(side === null ? form.most * NEAR_POINT : side * NEAR, form.most * LEAST)
    return answer.massNear(span, (beginning) => distance(beginning, values[index]!, form) <= within + ROUNDING)
  })
  return masses.reduce((sum, mass) => sum + mass, 0) / masses.length
}

/** Decimals are not exact in binary. */
const ROUNDING = 1e-9

/** The distance from `value` to the closest number with this prefix; infinite if no number has it. */
function distance(beginning: string, value: number, form: NumberForm): number {
  if (beginning.startsWith('-')) return value
  const [number, whole = '', fraction] = /^(\d*)(?:\.(\d*))?/.exec(beginning)!
  if (beginning.length > number.length)
    return whole === '' ? Number.POSITIVE_INFINITY : Math.abs(Number(number) - value)
  if (whole === '') return 0
  return Math.min(...rangesOf(whole, fraction, form).map(([least, most]) => Math.max(0, least - value, value - most)))
}

/** The ranges of numbers with this prefix, one for each length. */
function rangesOf(whole: string, fraction: string | undefined, form: NumberForm): readonly Span[] {
  const { most, digits, decimals = 0 } = form
  if (fraction !== undefined) {
    const least = Number(`${whole}.${fraction}`)
    return [[least, least + 10 ** -fraction.length - 10 ** -Math.max(decimals, fraction.length)]]
  }
  const ranges: Span[] = []
  const step = 1 - 10 ** -decimals
  for (let scale = 1, length = whole.length; ; scale *= 10, length++) {
    const least = Number(whole) * scale
    if (digits === undefined ? least > most : length > digits) break
    if (digits === undefined || length === digits) ranges.push([least, Math.min(most, least + scale - 1 + step)])
    // No longer number begins with a zero.
    if (digits === undefined && whole === '0') break
  }
  if (String(most).startsWith(whole)) ranges.push([most, most])
  return ranges.length === 0 ? [[Number(whole), Number(whole)]] : ranges
}

function meanOf(answer: RatedText, spans: readonly Span[]): number {
  const tokens = new Set(spans.flatMap((span) => [...answer.at(span)].map(({ rated }) => rated)))
  const sum = [...tokens].reduce((total, { logProb }) => total + logProb, 0)
  const digits = spans.reduce((count, [from, to]) => count + answer.text.slice(from, to).replace(/[-.]/g, '').length, 0)
  return Math.exp(sum / digits)
}
