import type { ErrorBody } from '../server/wire.ts'

/** An event of `POST /v1/chat/completions/multilook`, for clients that accept them. */
export interface LookEvent {
  readonly prompt_index?: number
  /** Index of the completion that `delta` belongs to. */
  readonly index?: number
  readonly delta?: { readonly content?: string; readonly reasoning_content?: string }
  readonly completions?: readonly {
    readonly message: { readonly content: string | null; readonly reasoning_content?: string }
    readonly finish_reason: string
  }[]
  /** Usage of a finished prompt, or of the whole call. */
  readonly usage?: { readonly completion_tokens: number } | LookUsage
  /** With `prompt_index`, of that prompt alone. */
  readonly error?: ErrorBody
}

export interface LookUsage {
  readonly prompt_tokens: number
  readonly completion_tokens: number
  readonly prompt_tokens_details: { readonly cached_tokens: number }
}
