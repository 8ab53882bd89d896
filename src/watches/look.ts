import type { Principal } from '../accounts/principal.ts'
import type { NewFile } from '../files/files.ts'
import type { GridRegion } from '../media/coordinates.ts'
import { InlineMedia } from '../media/inline-media.ts'
import type { LiveFrame } from '../media/live/live-frame.ts'
import type { FrameAbout } from './events/watch-events.ts'
import type { DropReason } from './look-counts.ts'
import type { LookAnswer } from './question-value.ts'

/** A look that could not begin in time. It costs nothing. */
export class LateLook extends Error {
  override readonly name = 'LateLook'
}

/** Answers questions about a frame. @throws LateLook, and what decisions throw. */
export type Look = (asked: LookRequest) => Promise<readonly LookAnswer[]>

export interface LookRequest {
  /** The id of the watch. */
  readonly watch: string
  readonly principal: Principal
  readonly model: string
  /** As decisions take them. */
  readonly questions: readonly object[]
  readonly frame: FrameMedia
  /** The part of the frame that the questions are about; null for all of it. */
  readonly region: GridRegion | null
  /**
   * The latest time to begin, by the clock of `performance`; null for evidence of what a look has found, which is not
   * skipped.
   */
  readonly beginBy: number | null
  readonly signal: AbortSignal
}

/** The source of a frame's pixels. */
type FrameMedia = InlineMedia | LiveFrame

/** A frame as an image file. */
export interface Picture {
  readonly bytes: Uint8Array
  readonly contentType: NewFile['contentType']
}

/** A frame that a client has sent. */
export interface PushedFrame extends Picture {
  /** When it was taken, according to the client. */
  readonly cameraTime: Date | null
}

/** A frame of a client or of a camera. */
export interface WatchFrame {
  /** For one reader, while the frame is looked at. */
  readonly media: () => FrameMedia
  readonly cameraTime: Date | null
  /** How long ago it arrived, in milliseconds. */
  readonly ageMs: number
  readonly picture: () => Promise<Picture>
  /** Call it once, when the frame is no longer read. */
  readonly release: () => void
}

export function pushedFrame({ cameraTime, ...picture }: PushedFrame): WatchFrame {
  const media = () => new InlineMedia(picture.bytes)
  return { cameraTime, ageMs: 0, media, picture: async () => picture, release: () => {} }
}

export interface LookReport {
  readonly frame: FrameAbout
  readonly still: boolean
  readonly answers: readonly LookAnswer[]
}

export interface Pushed {
  readonly frame: number
  readonly dropped?: DropReason
  /** Answers of the look, where the client waits for it. */
  readonly answers?: readonly LookAnswer[]
}
