import type { Principal } from '../accounts/principal.ts'
import type { NewFile } from '../files/files.ts'
import type { DropReason } from './look-counts.ts'
import type { LookAnswer } from './question-value.ts'
import type { FrameAbout } from './watch-events.ts'

/** Answers questions about a frame. */
export type Look = (asked: LookRequest) => Promise<readonly LookAnswer[]>

export interface LookRequest {
  /** The id of the watch. */
  readonly watch: string
  readonly principal: Principal
  readonly model: string
  /** As decisions take them. */
  readonly questions: readonly object[]
  readonly frame: Uint8Array
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
