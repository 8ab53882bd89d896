import type { EngineEvent, EngineStats, ModelInfo, PromptPart, PromptUsage } from '../engine.ts'
import type { Envelope } from './envelope.ts'

/**
 * Messages between the API process and the engine process. They cross as structured clones, pixels as typed arrays. What
 * clients have a part in is in an envelope, beside the id that an error about it needs.
 */
export type ToEngine =
  | { readonly type: 'load'; readonly settings: EngineSettings }
  /** The envelope holds a `Work`. */
  | { readonly type: 'generate'; readonly id: number; readonly work: Envelope }
  | { readonly type: 'abort'; readonly id: number }
  /** The envelope holds a `CountedPrompt`. */
  | { readonly type: 'count'; readonly id: number; readonly prompt: Envelope }
  | { readonly type: 'stats'; readonly id: number }
  | { readonly type: 'close' }

/** A prompt whose tokens are to be counted. */
export interface CountedPrompt {
  readonly organisation: string
  /** Pictures have their size and no pixels. */
  readonly parts: readonly PromptPart[]
}

export type FromEngine =
  /** `longestStepMs` is what one call into the native library took at most, while warming up. */
  | { readonly type: 'ready'; readonly info: ModelInfo; readonly longestStepMs: number }
  /** A sign of life while the model is being loaded. */
  | { readonly type: 'loading'; readonly stage: LoadStage }
  | { readonly type: 'heartbeat' }
  | { readonly type: 'failed'; readonly message: string }
  | { readonly type: 'admitted'; readonly id: number; readonly prompts: readonly PromptUsage[] }
  | { readonly type: 'counted'; readonly id: number; readonly tokens: number }
  | { readonly type: 'stats'; readonly id: number; readonly stats: EngineStats }
  /** Everything that one step produced. */
  | { readonly type: 'events'; readonly requests: readonly RequestEvents[] }
  /** The request is refused or lost; nothing follows. */
  | { readonly type: 'error'; readonly id: number; readonly error: EngineFailure }

/** What an engine process is at before it is ready. */
export type LoadStage = 'libraries' | 'weights' | 'cache' | 'encoder' | 'warm-up'

export interface RequestEvents {
  readonly id: number
  readonly events: readonly EngineEvent[]
  /** Nothing follows for this request. */
  readonly last: boolean
}

/** What the engine process must know of a model card and of the machine. */
export interface EngineSettings {
  readonly model: string
  readonly projector: string | null
  /** KV cells shared by all sequences. */
  readonly cells: number
  /** Completions that run at the same time. */
  readonly maxSequences: number
  /** Control tokens that print their text. */
  readonly printedTokens: readonly string[]
  /** Null for none. */
  readonly repetition: RepetitionLimits | null
  /** Of pictures and frames. */
  readonly image: { readonly pixelsPerToken: number; readonly minTokens: number; readonly maxTokens: number } | null
  readonly threads: number
  /** Requests that may wait for their first completion to start. */
  readonly maxWaiting: number
  /** Cells that ended work may leave in the prefix cache, for later requests that begin in the same way. */
  readonly prefixCacheCells: number
  /** Base of the random numbers of every request; null draws a new one for each. */
  readonly seed: number | null
}

/** An error in a form that crosses between processes; see `toApiError`. */
export type EngineFailure =
  | {
      readonly kind: 'invalid'
      readonly message: string
      readonly param: string | null
      readonly code?: string | null
    }
  | { readonly kind: 'overloaded'; readonly message: string; readonly retryAfter: number }
  | { readonly kind: 'internal'; readonly message: string }

/** When a completion counts as repeating itself: its end is one block, the same token by token, over and over. */
export interface RepetitionLimits {
  /** Most tokens of the block. */
  readonly blockTokens: number
  /** How often the block must occur in a row. */
  readonly repeats: number
  /** How many tokens all occurrences must have together. */
  readonly tokens: number
}
