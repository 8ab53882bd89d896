export interface ModelEntry {
  readonly id: string
  readonly modalities: readonly string[]
  readonly output_formats: readonly string[]
}

export interface EngineEntry {
  readonly models: readonly string[]
  readonly demonstration: boolean
}

export interface Usage {
  readonly prompt_tokens: number
  readonly completion_tokens: number
  readonly total_tokens: number
}

/** A piece of a reply as it arrives. */
export interface ReplyPiece {
  readonly content: string
  readonly reasoning: string
}

export interface FinishedReply extends ReplyPiece {
  readonly finishReason: string | null
  readonly usage: Usage | null
}

interface Pixel {
  readonly x: number
  readonly y: number
}

/** In pixels of the upright picture. */
export interface Detection {
  readonly mention: string
  readonly point?: Pixel
  readonly point_box?: { readonly top_left: Pixel; readonly bottom_right: Pixel }
  /** Counts from 1; present with `tracks`, like the time of the frame in seconds. */
  readonly track?: number
  readonly timestamp?: number
  /** The probability that it is right, if requested. */
  readonly confidence?: number
  /** What the probability is computed from, if requested. */
  readonly evidence?: Readonly<
    Record<'begin' | 'near' | 'mean' | 'overlap' | 'size' | 'rank' | 'list_length', number>
  > & { readonly read?: number | null }
}

interface DetectedCategory {
  readonly mention: string | null
  readonly complete: number | null
  readonly evidence?: { readonly more: number | null }
}

export interface Detections {
  readonly detections: readonly Detection[]
  /** The probability that all objects of a category were found, if requested. */
  readonly categories?: readonly DetectedCategory[]
  readonly confidence?: { readonly calibrated: boolean }
  readonly finish_reason: string
  /** Columns and rows of the grids, finest first, if the picture was searched tile by tile. */
  readonly tiles?: readonly (readonly number[])[]
  readonly looks?: number
  readonly tiles_left?: number
  /** With `tracks`: times of the searched frames, in seconds. */
  readonly timestamps?: readonly number[]
  /** With `tracks` of a video: size of its upright frames, in pixels. */
  readonly width?: number
  readonly height?: number
  /** Number of frames left out because of the time limit. */
  readonly frames_left?: number
  /** With `tracks`: the state to send with the next request. */
  readonly state?: string
}

interface Distribution<Option> {
  readonly confidence: number
  readonly probabilities: readonly Readonly<Option & { probability: number }>[]
}

/** An answer of `POST /v1/decisions`. */
export type DecisionAnswer = { readonly name: string | null } & (
  | { readonly type: 'predicate'; readonly probability: number }
  | ({ readonly type: 'choice'; readonly choice: string | boolean } & Distribution<{ value: string | boolean }>)
  | ({ readonly type: 'score'; readonly score: number } & Distribution<{ label: string; value: number }>)
  | ({ readonly type: 'x_count'; readonly count: number } & Distribution<{ value: number }>)
  | {
      readonly type: 'x_box'
      readonly box: Readonly<Record<'top' | 'bottom' | 'left' | 'right', number>> | null
      readonly confidence: number | null
    }
  | { readonly type: 'x_point'; readonly point: Pixel | null; readonly confidence: number | null }
  | {
      readonly type: 'x_clip'
      readonly clip: { readonly start_seconds: number; readonly end_seconds: number } | null
      readonly confidence: number | null
    }
  | { readonly type: 'refusal' }
)

/** An event of a watch. */
export interface WatchEvent {
  readonly type: string
  readonly data: {
    readonly seq: number
    readonly question?: string
    readonly reason?: string | null
    readonly probability?: number | null
    readonly started_at?: string
    readonly ended_at?: string | null
    readonly clip?: { readonly status: string; readonly file_id: string | null; readonly reason: string | null } | null
  }
}
