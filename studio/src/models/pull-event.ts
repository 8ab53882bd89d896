import type { ErrorBody } from '../server/wire.ts'
import type { Fits } from './catalogue.ts'

/** A quantisation of a repository. */
interface PullOption {
  readonly quant: string
  /** Size of its files, the image encoder's included. */
  readonly bytes: number
  readonly memory_bytes: number
  readonly fits: Fits
  /** Whether all files are already downloaded. */
  readonly cached: boolean
  /** Whether the server would take it. */
  readonly chosen: boolean
}

export interface PullChoice {
  readonly type: 'choice'
  /** The repository. */
  readonly model: string
  readonly available_bytes: number
  readonly context_tokens: number
  readonly options: readonly PullOption[]
  /** The image encoder's file; null for a model of text alone. */
  readonly projector: string | null
}

interface PullProgress {
  readonly type: 'progress'
  readonly file: string
  readonly done_bytes: number
  readonly total_bytes: number
  readonly bytes_per_second: number
  readonly seconds_left: number | null
}

/** What `POST /v1/models/pull` tells while it works. */
export type PullEvent = { readonly error?: ErrorBody } & (
  | PullChoice
  | PullProgress
  | { readonly type: 'note'; readonly message: string }
  | { readonly type: 'found' | 'check'; readonly file: string }
  | { readonly type: 'done'; readonly id: string; readonly served: boolean; readonly reason: string | null }
)
