import type { DetectionKind } from '../../grounding/dialect.ts'
import type { Point } from '../../media/coordinates.ts'
import type { TileWish } from '../../media/tile-plan.ts'
import type { MediaUrl } from './message.ts'

/** A parsed detect request. */
export interface DetectRequest extends Targets {
  readonly picture: MediaUrl
  /** How a large picture is searched tile by tile; null to search it whole. */
  readonly tiles: (TileWish & { readonly looks: (typeof LOOKS)[number] }) | null
}

/** A parsed request to track objects. */
export interface TrackRequest extends Targets {
  readonly media: TrackMedia
  /** How long a track stays without a sighting, in seconds. */
  readonly patience: number
  /** The state from the reply to the frames before; null at the beginning. */
  readonly state: string | null
}

export type TrackMedia =
  | { readonly type: 'video'; readonly video: MediaUrl }
  /** At least one, in order of time. */
  | { readonly type: 'frames'; readonly frames: readonly { readonly picture: MediaUrl; readonly seconds: number }[] }

/** What is searched for, and how. */
export interface Targets {
  /** The labels to look for, as plain names. Without categories and exemplars, every object is detected. */
  readonly categories: readonly string[]
  readonly exemplars: readonly Exemplar[]
  /** Images that show none of the targets. */
  readonly negatives: readonly MediaUrl[]
  readonly output: DetectionKind
  readonly thinking: boolean
  /** Null if no confidence is wanted. */
  readonly confidence: ConfidenceRequest | null
}

export interface ConfidenceRequest {
  /** Objects with less confidence are left out, from 0 to 1. */
  readonly least: number
  /** Whether the model is asked for one more object in each list, and about each place. */
  readonly isThorough: boolean
  /** Whether it is asked only for one more object in lists that may lack some, and not about places. */
  readonly asksFurther?: boolean
}

/** Which objects get a second, closer look: none, those of the coarser grids, or all. */
export const LOOKS = ['none', 'coarse', 'all'] as const

/** An image with annotated targets. */
export interface Exemplar {
  readonly picture: MediaUrl
  readonly annotations: readonly ExemplarAnnotation[]
}

export interface ExemplarAnnotation {
  /** A plain name. Null means the only category. */
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
