import type { DetectionKind } from '../../grounding/index.ts'
import type { Point } from '../../media/index.ts'
import type { MediaUrl } from './message.ts'

/** A search for objects in one picture, as parsed at the door. */
export interface DetectRequest {
  readonly picture: MediaUrl
  /** What to look for. Without categories and exemplars: everything. */
  readonly categories: readonly string[]
  readonly exemplars: readonly Exemplar[]
  /** Pictures that show nothing of what is looked for. */
  readonly negatives: readonly MediaUrl[]
  readonly output: DetectionKind
  readonly thinking: boolean
}

/** A picture in which somebody has marked what is looked for. */
export interface Exemplar {
  readonly picture: MediaUrl
  readonly annotations: readonly ExemplarAnnotation[]
}

export interface ExemplarAnnotation {
  /** Null where only one category can be meant. */
  readonly mention: string | null
  /** Pixels of the exemplar's own picture. At least one of the two. */
  readonly point: Point | null
  readonly box: Box | null
}

/** Corners in pixels of the upright picture. */
export interface Box {
  readonly topLeft: Point
  readonly bottomRight: Point
}
