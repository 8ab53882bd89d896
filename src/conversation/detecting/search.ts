import type { Annotation, GridPoint, Leaf } from '../../grounding/annotation.ts'
import { AnnotationSearch, type SearchParts } from '../reply/annotation-search.ts'

interface DetectionSearchParts extends SearchParts {
  /** The labels that objects may have, by the names that the model writes for them; null for any name. */
  readonly labels: ReadonlyMap<string, string> | null
}

/** Boxes with at least this intersection over union are the same object. */
const SAME_BOX_IOU = 0.9
/** Points at most this far apart in either direction, on the 0..1000 grid, are the same object. */
const SAME_POINT_DISTANCE = 5
/** After this many known objects in a row, the model is repeating itself. */
const MAX_REPETITIONS = 8

/** Collects the objects in the model's answer to one detection question, without duplicates. */
export class DetectionSearch extends AnnotationSearch {
  readonly leaves: Leaf[] = []
  readonly #labels: DetectionSearchParts['labels']
  #repeated = 0

  constructor({ labels, ...parts }: DetectionSearchParts) {
    super(parts)
    this.#labels = labels
  }

  /** Whether the model only repeats known objects. A small model may never stop by itself. */
  protected get isSatisfied(): boolean {
    return this.#repeated >= MAX_REPETITIONS
  }

  fail(error: unknown): never {
    throw error
  }

  protected keep(annotation: Annotation): void {
    if (annotation.kind !== 'point' && annotation.kind !== 'point_box') return
    // An engine that enforces the constraint produces no other labels.
    const mention = this.#labels === null ? annotation.mention : this.#labels.get(annotation.mention ?? '')
    if (this.#labels !== null && mention === undefined) return
    const leaf = { ...annotation, mention }
    if (this.leaves.some((known) => same(known, leaf))) this.#repeated++
    else {
      this.#repeated = 0
      this.leaves.push(leaf)
    }
  }
}

function same(a: Leaf, b: Leaf): boolean {
  if (a.mention !== b.mention || a.kind !== b.kind) return false
  const near = (p: GridPoint, q: GridPoint) => Math.max(Math.abs(p.x - q.x), Math.abs(p.y - q.y)) <= SAME_POINT_DISTANCE
  if (a.kind === 'point') return near(a.points[0]!, b.points[0]!)
  // Boxes with almost no area have no meaningful overlap, so equal corners count as well.
  return overlap(a.points, b.points) >= SAME_BOX_IOU || a.points.every((point, i) => equal(point, b.points[i]!))
}

function equal(p: GridPoint, q: GridPoint): boolean {
  return p.x === q.x && p.y === q.y
}

/** Intersection over union of two boxes, 0..1. */
export function overlap(a: readonly GridPoint[], b: readonly GridPoint[]): number {
  const width = Math.min(a[1]!.x, b[1]!.x) - Math.max(a[0]!.x, b[0]!.x)
  const height = Math.min(a[1]!.y, b[1]!.y) - Math.max(a[0]!.y, b[0]!.y)
  const common = Math.max(0, width) * Math.max(0, height)
  return common === 0 ? 0 : common / (area(a) + area(b) - common)
}

function area([from, to]: readonly GridPoint[]): number {
  return (to!.x - from!.x) * (to!.y - from!.y)
}
