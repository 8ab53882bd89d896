import type { TokenLogProb } from '../../inference/contract/generation.ts'
import type { FinishReason, ReplyMessage } from './reply.ts'
import type { ReplyPiece } from './reply-piece.ts'

export type PromptResult =
  | { readonly type: 'answer'; readonly completions: readonly Completion[]; readonly completionTokens: number }
  | PromptFailure

export interface PromptFailure {
  readonly type: 'failure'
  /** An ApiError, or an internal error. */
  readonly error: unknown
}

export interface Completion {
  readonly message: ReplyMessage
  /** Log-probabilities of its tokens, without the reasoning; empty unless the request asks for them. */
  readonly logProbs: readonly TokenLogProb[]
  readonly reason: FinishReason
}

export interface MultilookUsage {
  /** Tokens of the admitted prompts, each with the whole context. */
  readonly promptTokens: number
  /** The part of `promptTokens` that was reused: the context, for every admitted prompt but one. */
  readonly cachedTokens: number
  readonly audioTokens: number
  /** Tokens of the answered prompts' completions. */
  readonly completionTokens: number
}

/** An event of a multilook as it is computed. Prompts have their request's numbers, and finish in any order. */
export type MultilookEvent =
  | MultilookPiece
  /** A prompt has all its completions, or has failed; each prompt has one such event. */
  | { readonly type: 'result'; readonly prompt: number; readonly result: PromptResult }
  /** The last event. */
  | { readonly type: 'finish'; readonly usage: MultilookUsage }

/** A piece of a completion. */
export interface MultilookPiece {
  readonly type: 'piece'
  readonly prompt: number
  readonly completion: number
  readonly piece: ReplyPiece
}
