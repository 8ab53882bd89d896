export interface Generation {
  /**
   * Prompt tokens of each branch, in branch order. They are known at admission, unless only a server can count them:
   * they are then estimates until the branch's last `finish`.
   */
  readonly prompts: readonly PromptUsage[]
  /**
   * Events of all completions, interleaved. Iterate once. The iteration ends after the last `finish` (or `error`) of
   * the last completion. It rejects with the abort reason when the signal fires, and with an ApiError 503 when the
   * engine fails. Leaving the iteration early aborts the work.
   */
  readonly events: AsyncIterable<EngineEvent>
  /**
   * Completion tokens that the engine has reported so far. They include tokens whose events have not been read, or
   * never will be.
   */
  computedTokens(): number
  /**
   * Reports that the reader has ended a completion after `tokens` tokens, which is then its count. Further tokens that
   * the engine has computed do not count: their number depends on how busy the machine is.
   */
  settle(completion: CompletionId, tokens: number): void
  /**
   * The fingerprint that the servers report for what their numbers depend on; null before they report it, or if they
   * differ.
   */
  fingerprint?(): string | null
}

/** Identifies a completion of a work in events. */
export type CompletionId = Pick<TextEvent, 'branch' | 'completion'>

/** The prompts of a work, in branch order. For a work with one branch, cached tokens are not known. */
export interface Measurement {
  readonly prompts: readonly PromptUsage[]
  /** False for estimates: only a server can count the tokens, and reports them with a reply. */
  readonly exact: boolean
}

export interface PromptUsage {
  /** All prompt tokens of the branch: prefix and suffix, text and media. */
  readonly promptTokens: number
  /**
   * The part of `promptTokens` from images and videos, and from audio: by its length, without the padding of encoders.
   */
  readonly imageTokens: number
  readonly audioTokens: number
  /** The part of `promptTokens` that was already computed at admission. */
  readonly cachedTokens: number
}

export type EngineEvent = TextEvent | FinishEvent | BranchErrorEvent

export interface TextEvent {
  readonly type: 'text'
  readonly branch: number
  readonly completion: number
  /** Whole characters, never empty: the bytes of an incomplete character are held back. */
  readonly text: string
  /**
   * The number of tokens of this text, at least 1: a sampled one, those that a constraint forced after it, and
   * preceding ones that printed nothing. Their sum over a completion is at most the `completionTokens` of its finish,
   * which also counts trailing tokens that print nothing.
   */
  readonly tokens: number
  /**
   * Where each token's text ends in `text`, in order and in UTF-16 units. Absent for a single token, and if several
   * cannot be separated: the whole text then belongs to all of them.
   */
  readonly ends?: readonly number[]
  /**
   * Log-probabilities of this text's tokens, in order, if the branch has `topLogProbs`. Their bytes are those of the
   * text, except for half a character at the end of a completion, whose tokens may have none.
   */
  readonly logProbs?: readonly TokenLogProb[]
}

/** A chosen token and its likely alternatives. */
export interface TokenLogProb extends RankedToken {
  /** The likeliest tokens, in descending order; they include the chosen one if it is likely enough. */
  readonly top: readonly RankedToken[]
}

export interface RankedToken {
  /**
   * Its text, with U+FFFD in place of bytes that do not form a whole character; its name if the token prints nothing.
   */
  readonly text: string
  /** The bytes that it prints. */
  readonly bytes: readonly number[]
  /**
   * Natural logarithm of its probability among the allowed tokens: after the constraint's mask, before temperature and
   * penalties. 0 for a forced token.
   */
  readonly logProb: number
}

export interface FinishEvent {
  readonly type: 'finish'
  readonly branch: number
  readonly completion: number
  /** `length` also for a completion that repeated itself, if the model's card limits repetition. */
  readonly reason: 'stop' | 'length'
  /** Generated tokens, without the end-of-turn token. */
  readonly completionTokens: number
  /** The number of them in the thought, if a server reports it. */
  readonly reasoningTokens?: number
  /** True if the engine ended the thought because its budget was used up. */
  readonly thoughtInterrupted?: boolean
  /**
   * The token with which the model ended its turn, and its likely alternatives. Present if the branch has
   * `topLogProbs`, the model itself ended the turn, and the engine knows the token: some servers do not report it.
   */
  readonly end?: TokenLogProb
}

/** The branch failed; the others continue. */
export interface BranchErrorEvent {
  readonly type: 'error'
  readonly branch: number
  readonly error: Error
}

export interface Reading {
  /** Prompt tokens of each question, in request order, without the tokens of the replies. */
  readonly prompts: readonly PromptUsage[]
  /**
   * One per question, in order of completion. Iterate once. Rejects as `Generation.events` does. Leaving the iteration
   * early aborts the work.
   */
  readonly answers: AsyncIterable<ReadAnswer>
}

export type ReadAnswer =
  | {
      readonly question: number
      /**
       * Natural logarithm of the probability of each reply, in request order: of its tokens and the end of turn after
       * them. Minus infinity for a reply that the model cannot write.
       */
      readonly logProbs: readonly number[]
      /**
       * All tokens of the suffix, if its question has `topLogProbs`. The log-probability of the first is NaN, because
       * nothing precedes it.
       */
      readonly tokens?: readonly TokenLogProb[]
    }
  /** The question failed; the others continue. */
  | { readonly question: number; readonly error: Error }

export interface Embedding {
  /** Tokens of each input, in request order. If only servers count them, zeros until the last vector has arrived. */
  readonly prompts: readonly PromptUsage[]
  /**
   * One per input, in order of completion. Iterate once. Rejects as `Generation.events` does. Leaving the iteration
   * early aborts the work.
   */
  readonly vectors: AsyncIterable<EmbeddedInput>
}

export interface EmbeddedInput {
  /** Index of the input in the work. */
  readonly input: number
  /** A unit vector; for a reranker, one number from 0 to 1. */
  readonly vector: Float32Array
}
