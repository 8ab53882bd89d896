import type { DetectedBox } from './detected-picture.ts'

/** A clip with what was followed through it. */
export interface TrackedClip {
  readonly boxes: readonly TrackedBox[]
  /** Numbers of the frames that were looked at, from 0, in order; those without boxes too. */
  readonly frames: readonly number[]
  /** Size of the upright frames, in pixels; null where that is not known. */
  readonly size: { readonly width: number; readonly height: number } | null
}

export interface TrackedBox extends DetectedBox {
  /** From 1. */
  readonly track: number
  /** From 0. */
  readonly frame: number
}
