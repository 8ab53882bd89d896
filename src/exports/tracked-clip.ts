import type { DetectedBox } from './detected-picture.ts'

/** A clip with its tracks. */
export interface TrackedClip {
  readonly boxes: readonly TrackedBox[]
  /** Numbers of the searched frames, from 0, in order; including frames without boxes. */
  readonly frames: readonly number[]
  /** Size of the upright frames, in pixels; null if unknown. */
  readonly size: { readonly width: number; readonly height: number } | null
}

export interface TrackedBox extends DetectedBox {
  /** From 1. */
  readonly track: number
  /** From 0. */
  readonly frame: number
}
