export interface Generation {
  /**
   * Prompt tokens of each branch, in branch order. They are known at admission, except where only a server can count them:
   * there they are estimates until the branch's last `finish`.
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
   * Says that the reader has ended a completion after `tokens` tokens. From then on it counts with these. Further tokens that
   * the engine has computed do not count: their number depends on how busy the machine is.
   */
  settle(completion: CompletionId, tokens: number): void
  /** What the servers that compute it call what their numbers depend on; null before they say so, or where they differ. */
  fingerprint?(): string | null
}

/** Which completion of a work, as events name it. */
export type CompletionId = Pick<TextEvent, 'branch' | 'completion'>

/** The prompts of a work, in branch order. Of a work with one branch, it is not known what a cache has. */
export interface Measurement {
  readonly prompts: readonly PromptUsage[]
  /** False for estimates: only a server can count the tokens, and says them with a reply. */
  readonly exact: boolean
}

export interface PromptUsage {
  /** All prompt tokens of the branch: prefix and suffix, text and media. */
  readonly promptTokens: number
  /** The part of `promptTokens` from images and videos, and from audio: by its length, without what encoders pad it with. */
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
   * The tokens behind this text, at least 1: a sampled one, those that a constraint forced after it, and those since
   * the previous event that printed nothing. Their sum over a completion is at most the `completionTokens` of its
   * finish, which also counts trailing tokens that print nothing.
   */
  readonly tokens: number
  /**
   * Where in the text that of each token ends, in order and in units of UTF-16. Absent of a single token, and where several
   * cannot be told apart: all of the text is of all of them then.
   */
  readonly ends?: readonly number[]
  /**
   * Log-probabilities of the tokens behind this text, in order, where the branch asks for `topLogProbs`. Their bytes are
   * those of the texts, except for half of a character at the end of a completion, whose tokens may have none.
   */
  readonly logProbs?: readonly TokenLogProb[]
}

/** A token that was chosen, and what else was likely. */
export interface TokenLogProb extends RankedToken {
  /** The likeliest tokens, in descending order; the chosen one is among them where it is likely enough. */
  readonly top: readonly RankedToken[]
}

export interface RankedToken {
  /** Its text, with U+FFFD in place of bytes that are no whole character; of a token that prints nothing, its name. */
  readonly text: string
  /** What it prints. */
  readonly bytes: readonly number[]
  /**
   * Natural logarithm of its probability among the tokens that could follow: after the mask of a constraint, before
   * temperature and penalties. 0 for a forced token.
   */
  readonly logProb: number
}

export interface FinishEvent {
  readonly type: 'finish'
  readonly branch: number
  readonly completion: number
  /** `length` also for a completion that kept repeating itself, where the model's card limits repetition. */
  readonly reason: 'stop' | 'length'
  /** Tokens generated, without the end-of-turn token. */
  readonly completionTokens: number
  /** How many of them are the thought's, where a server says it. */
  readonly reasoningTokens?: number
  /** True when the engine ended the thought because its budget was used up. */
  readonly thoughtInterrupted?: boolean
  /**
   * The token by which the model ended its turn, and what else was likely in its place. Present where the branch asks for
   * `topLogProbs`, the model itself ended the turn, and the engine knows it: some servers do not tell.
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
  /** Prompt tokens of each question, in request order. The tokens of the replies are not among them. */
  readonly prompts: readonly PromptUsage[]
  /**
   * One for each question, as they become known. Iterate once. It rejects as `Generation.events` does. Leaving the
   * iteration early aborts the work.
   */
  readonly answers: AsyncIterable<ReadAnswer>
}

export type ReadAnswer =
  | {
      readonly question: number
      /**
       * Natural logarithm of the probability of each reply, in request order: of its tokens and of the end of the turn
       * after them. Minus infinity for what the model cannot write.
       */
      readonly logProbs: readonly number[]
      /** All tokens of the suffix, where its question has `topLogProbs`. The first is NaN likely: nothing precedes it. */
      readonly tokens?: readonly TokenLogProb[]
    }
  /** The question failed; the others continue. */
  | { readonly question: number; readonly error: Error }

export interface Embedding {
  /** Tokens of each input, in request order; where only servers count them, zeros until the last vector is there. */
  readonly prompts: readonly PromptUsage[]
  /** One for each input, as they become known. Iterate once. It rejects as `Generation.events` does. */
  readonly vectors: AsyncIterable<EmbeddedInput>
}

export interface EmbeddedInput {
  /** Its position in the work. */
  readonly input: number
  /** A vector of length 1; a reranker gives one number from 0 to 1. */
  readonly vector: Float32Array
}
