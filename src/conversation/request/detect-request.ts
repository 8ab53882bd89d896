import type { DetectionKind } from '../../grounding/dialect.ts'
import type { Point } from '../../media/coordinates.ts'
import type { TileWish } from '../../media/tile-plan.ts'
import type { MediaUrl } from './message.ts'

/** A parsed detect request. */
export interface DetectRequest {
  readonly picture: MediaUrl
  /** The labels to look for. Without categories and exemplars, every object is detected. */
  readonly categories: readonly string[]
  readonly exemplars: readonly Exemplar[]
  /** Images that show none of the targets. */
  readonly negatives: readonly MediaUrl[]
  readonly output: DetectionKind
  readonly thinking: boolean
  /** How a large picture is searched tile by tile; null to search it whole. */
  readonly tiles: (TileWish & { readonly looks: (typeof LOOKS)[number] }) | null
}

/** Which things are looked at a second time, closer: none, those of the coarser grids, or all. */
export const LOOKS = ['none', 'coarse', 'all'] as const

/** An image with annotated targets. */
export interface Exemplar {
  readonly picture: MediaUrl
  readonly annotations: readonly ExemplarAnnotation[]
}

export interface ExemplarAnnotation {
  /** Null means the only category. */
  readonly mention: string | null
  /** The coordinates are pixels of the exemplar's own image. At least one of `point` and `box` is set. */
  readonly point: Point | null
  readonly box: Box | null
}

/** Corners in pixels of the upright image. */
export interface Box {
  readonly topLeft: Point
  readonly bottomRight: Point
}
