import type { Principal } from '../accounts/principal.ts'
import type { NewFile } from '../files/files.ts'
import type { DropReason } from './look-counts.ts'
import type { LookAnswer } from './question-value.ts'
import type { FrameAbout } from './watch-events.ts'

/** A look that has not begun in time. It costs nothing. */
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
  readonly frame: Uint8Array
  /**
   * When it is too late to begin, by the clock of `performance`; null for what a look has found, which is always answered.
   */
  readonly beginBy: number | null
  readonly signal: AbortSignal
}

export interface PushedFrame {
  readonly bytes: Uint8Array
  readonly contentType: NewFile['contentType']
  /** When it was taken, as the client says. */
  readonly cameraTime: Date | null
}

export interface LookReport {
  readonly frame: FrameAbout
  readonly still: boolean
  readonly answers: readonly LookAnswer[]
}

export interface Pushed {
  readonly frame: number
  readonly dropped?: DropReason
  /** Of the look, where the client waits for it. */
  readonly answers?: readonly LookAnswer[]
}
