import type { Annotation, GridPoint, Leaf } from '../../grounding/annotation.ts'
import type { AnswerForm } from '../../grounding/answer-form.ts'
import type { PlaceEvidence } from '../../grounding/evidence.ts'
import type { FinishEvent, TextEvent } from '../../inference/contract/generation.ts'
import { iouOf, type Rectangle } from '../../lib/rectangle.ts'
import { AnnotationSearch, type SearchParts } from '../reply/annotation-search.ts'

interface DetectionSearchParts extends SearchParts {
  /** The allowed labels, by the names that the model writes for them; null for any name. */
  readonly labels: ReadonlyMap<string, string> | null
  /** The beginning of the answer, if it is part of the prompt. Its objects do not count as found. */
  readonly begun?: string
}

/** An object that the model would not have written by itself. */
export interface FurtherObject {
  readonly leaf: Leaf
  /** The evidence as if the model had begun to write it. */
  readonly place: PlaceEvidence
}

/** An answer up to the end of its last object. */
export interface AnswerSoFar {
  /** The model's text, including thoughts. */
  readonly text: string
  /** The answer alone. */
  readonly answer: string
  readonly isEmpty: boolean
}

/** Boxes with at least this intersection over union are the same object. */
const SAME_BOX_IOU = 0.9
/** Points at most this far apart in either direction, on the 0..1000 grid, are the same object. */
const SAME_POINT_DISTANCE = 5
/** After this many known objects in a row, the model is repeating itself. */
const MAX_REPETITIONS = 8

/** Evidence of a place whose tokens are not found in the text. */
const UNKNOWN: PlaceEvidence = { begin: 0, near: 0, mean: 0 }

interface SearchEvidence {
  /** For each of the leaves. */
  readonly places: readonly PlaceEvidence[]
  /** The probability of continuing at the end: 1 for a truncated answer; null if the engine gives none. */
  readonly more: number | null
}

/** Collects the objects in the model's answer to one detection question, without duplicates. */
export class DetectionSearch extends AnnotationSearch {
  readonly leaves: Leaf[] = []
  readonly #labels: DetectionSearchParts['labels']
  #repeated = 0
  /** Number of annotations that were read so far, including duplicates. */
  #read = 0
  /** Index of each leaf among them. */
  readonly #places: number[] = []
  /** Text of all tokens, including thoughts. */
  #text = ''
  #isRated = true

  constructor({ labels, begun = '', ...parts }: DetectionSearchParts) {
    super(parts)
    this.#labels = labels
    if (begun === '') return
    this.rated.push({ text: begun, bytes: [...Buffer.from(begun)], logProb: 0, top: [] })
    this.#read = this.skip(begun)
  }

  /** Whether the model only repeats known objects. A small model may never stop by itself. */
  protected get isSatisfied(): boolean {
    return this.#repeated >= MAX_REPETITIONS
  }

  /** Null for any. */
  get labels(): readonly string[] | null {
    return this.#labels && [...this.#labels.values()]
  }

  /** Whether the engine gave log-probabilities of all its text. */
  get isRated(): boolean {
    return this.#isRated
  }

  /** How sure the model was of its answer. Call at the end. @param form that of the answer. */
  evidence(form: AnswerForm): SearchEvidence {
    const { places, more } = this.evidenceOf(form)
    return { places: this.#places.map((index) => places[index]?.evidence ?? UNKNOWN), more: this.isComplete ? more : 1 }
  }

  /** The answer up to where it could continue with another object. */
  soFar(form: AnswerForm): AnswerSoFar {
    const bytes = Buffer.from(this.rated.flatMap((token) => token.bytes))
    const text = bytes.toString('latin1')
    const last = [...text.matchAll(form.object)].at(-1)
    const kept = bytes.subarray(0, last === undefined ? 0 : last.index + last[0].length).toString()
    const thought = this.#text.slice(0, this.#text.length - bytes.toString().length)
    return { text: thought + kept, answer: kept, isEmpty: last === undefined }
  }

  /** A search for one more object, which continues this answer. */
  continued(parts: Omit<DetectionSearchParts, 'labels'>): DetectionSearch {
    return new DetectionSearch({ ...parts, labels: this.#labels })
  }

  /** The last object that was found; null if there is none. */
  newest(form: AnswerForm): FurtherObject | null {
    const leaf = this.leaves.at(-1)
    return leaf === undefined ? null : { leaf, place: this.evidence(form).places.at(-1)! }
  }

  protected override note({ text }: TextEvent): void {
    this.#text += text
  }

  override take(event: TextEvent | FinishEvent): void {
    if (event.type === 'text') this.#isRated &&= event.logProbs !== undefined
    super.take(event)
  }

  fail(error: unknown): never {
    throw error
  }

  protected keep(annotation: Annotation): void {
    const place = this.#read++
    if (annotation.kind !== 'point' && annotation.kind !== 'point_box') return
    // An engine that enforces the constraint produces no other labels.
    const mention = this.#labels === null ? annotation.mention : this.#labels.get(annotation.mention ?? '')
    if (this.#labels !== null && mention === undefined) return
    const leaf = { ...annotation, mention }
    if (this.leaves.some((known) => same(known, leaf))) this.#repeated++
    else {
      this.#repeated = 0
      this.leaves.push(leaf)
      this.#places.push(place)
    }
  }
}

/** Whether two leaves are the same object. */
export function same(a: Leaf, b: Leaf): boolean {
  if (a.mention !== b.mention || a.kind !== b.kind) return false
  const near = (p: GridPoint, q: GridPoint) => Math.max(Math.abs(p.x - q.x), Math.abs(p.y - q.y)) <= SAME_POINT_DISTANCE
  if (a.kind === 'point') return near(a.points[0]!, b.points[0]!)
  // Boxes with almost no area have no meaningful overlap, so equal corners count as well.
  return overlap(a.points, b.points) >= SAME_BOX_IOU || a.points.every((point, i) => equal(point, b.points[i]!))
}

function equal(p: GridPoint, q: GridPoint): boolean {
  return p.x === q.x && p.y === q.y
}

/** Intersection over union of two boxes, 0..1. A point has no area, so it overlaps nothing. */
export function overlap(a: readonly GridPoint[], b: readonly GridPoint[]): number {
  return iouOf(rectangleOf(a), rectangleOf(b))
}

function rectangleOf([from, to = from]: readonly GridPoint[]): Rectangle {
  return { left: from!.x, top: from!.y, right: to!.x, bottom: to!.y }
}
