import type { CameraType } from '../../../src/media/live/camera-source.ts'
import type { LookAnswer } from '../../../src/watches/question-value.ts'
import type { Edges } from '../../../src/watches/watch-region.ts'
import type { WatchQuestion } from '../../../src/watches/watch-settings.ts'

export type Dropped = 'busy' | 'late' | 'rate' | 'still'

/** A watch, as `/v1/watches` describes it. */
export interface Watch {
  readonly id: string
  readonly model: string
  readonly name: string | null
  readonly source: { readonly type: 'push' | 'camera' | CameraType; readonly camera?: string; readonly url?: string }
  /** Looks in a second, at most. */
  readonly fps: number
  /** The part of each frame that is looked at; null for all of it. */
  readonly region: Edges | null
  readonly questions: readonly WatchQuestion[]
  readonly status: 'starting' | 'running' | 'paused' | 'offline' | 'waiting'
  /** Why it does not look; of a camera that delivers nothing, one of its faults. */
  readonly reason: string | null
  readonly last_seq: number
  /** Null while the server does not run it. */
  readonly counts: {
    readonly frames: number
    readonly looks: number
    readonly failed: number
    readonly dropped: Readonly<Record<Dropped, number>>
  } | null
}

interface Span {
  readonly from: string
  readonly to: string
}

/** What a watch tells. Times are ISO 8601. */
export interface WatchEvent {
  readonly object: 'event'
  readonly type: string
  readonly created_at: number
  readonly data: {
    /** From 1, without gaps. */
    readonly seq: number
    /** The same for the start and the end of one event. */
    readonly happening?: string
    readonly question?: string
    readonly reason?: string | null
    readonly started_at?: string
    readonly ended_at?: string | null
    readonly peak_probability?: number
    readonly gaps?: readonly Span[]
    readonly frame?: { readonly width: number; readonly height: number; readonly file_id: string | null } | null
    readonly box?: Edges | null
    /** A video of the event. It is `pending` until the event has been seen for long enough. */
    readonly clip?: { readonly status: 'pending' | 'available' | 'unavailable' } | null
    readonly from?: string
    readonly to?: string
    readonly message?: string
  }
}

/** A look, while it is followed. It has no number, and is not kept. */
export interface WatchLook {
  readonly object: 'look'
  readonly answers: readonly LookAnswer[]
}

/** What a frame that was pushed gets. */
export interface FrameReply {
  readonly frame: number
  readonly dropped?: Dropped
  readonly answers?: readonly LookAnswer[]
}
