import type { Constraint } from './constraint.ts'
import type { Hold } from './hold.ts'
import type { PromptPart } from './parts.ts'
import type { Priority } from './priority.ts'
import type { WorkTrace } from './work-trace.ts'

export interface Work {
  /** Owner of the work. Scheduling is fair between organisations, and caches are never shared across them. */
  readonly organisation: string
  readonly prefix: readonly PromptPart[]
  readonly branches: readonly Branch[]
  /** True if completions are read only at their end: an engine may then report their tokens in larger batches. */
  readonly whole?: boolean
  /** `interactive` by default. */
  readonly priority?: Priority
  /** The hold of the work's request. */
  readonly hold?: Hold | undefined
  /**
   * True for input that will hardly be used again, such as a frame of a camera: after the work has ended, no cache
   * keeps any of it. The work may itself reuse what other work has cached.
   */
  readonly isTransient?: boolean
  /** Name of the adapter on the card; absent for the model alone. */
  readonly adapter?: string | undefined
  /** Called when the engine, or a server, starts to compute it. */
  readonly onBegun?: (() => void) | undefined
  /** Absent if the request is not traced. */
  readonly trace?: WorkTrace
}

export interface Branch {
  /** Request parameter that errors about this branch name; `messages` by default. */
  readonly param?: string
  readonly suffix: readonly PromptPart[]
  /** Number of completions to sample from this branch, at least 1. */
  readonly n: number
  /** Maximum tokens per completion; null for all that the context window leaves. 0 yields an empty completion. */
  readonly maxTokens: number | null
  readonly sampling: Sampling
  /** The form of each completion's text. A completion that is cut at `maxTokens` is the beginning of a valid text. */
  readonly constraint?: Constraint
  /** Present if the prompt ends within a thought: each completion begins with the rest of that thought. */
  readonly thought?: Thought
  /**
   * Number of likeliest tokens that are reported, with their log-probabilities, for each token of the completions; 0
   * for the chosen token alone. Absent if none are wanted.
   */
  readonly topLogProbs?: number
  /** Whether other work may soon continue its completion: an engine can keep its state for a moment. */
  readonly isContinued?: boolean
}

/**
 * A thought before the reply. It is free text: a constraint applies after it. Its text is part of the completion's
 * text, and its tokens count towards `maxTokens` and the completion's tokens.
 */
export interface Thought {
  /** The marker whose first occurrence ends the thought. */
  readonly end: string
  /** The marker with the text around it, e.g. `\n</think>\n\n`. The text after the marker follows every thought. */
  readonly closing: string
  /**
   * Maximum tokens of the thought; less if `maxTokens` would leave no room for `closing` and one token after it. When
   * the budget is used up, or the model ends its turn within the thought, the engine writes `closing` itself and the
   * reply follows.
   */
  readonly budget: number
}

export interface Sampling {
  /** 0 is greedy decoding. */
  readonly temperature: number
  /** In (0, 1]; 1 is off. */
  readonly topP: number
  /** 0 is off. */
  readonly topK: number
  readonly frequencyPenalty: number
  readonly presencePenalty: number
  /**
   * Minimum probability of a token that may be drawn, relative to the likeliest one, at the temperature. In [0, 1]; 0,
   * the default, is off.
   */
  readonly minP?: number
  /**
   * Positive logits of tokens in the prompt's text and in the completion are divided by it, negative ones are
   * multiplied (https://arxiv.org/abs/1909.05858). Greater than 0; 1, the default, is off.
   */
  readonly repetitionPenalty?: number
  /**
   * An integer from 0 to 2^32 - 1: the same work with the same seed uses the same random numbers. Absent for different
   * ones each time. Remote servers apply it as far as they can.
   */
  readonly seed?: number
}

/** Questions about a shared prefix, and for each the replies whose probabilities are wanted. */
export interface ReadWork
  extends Pick<
    Work,
    'organisation' | 'prefix' | 'priority' | 'hold' | 'isTransient' | 'adapter' | 'onBegun' | 'trace'
  > {
  /** At least one. */
  readonly questions: readonly ReadQuestion[]
}

export interface ReadQuestion {
  /** Request parameter that errors about this question name; `messages` by default. */
  readonly param?: string
  readonly suffix: readonly PromptPart[]
  /** From 1 to 1,000 different whole replies. None is empty. */
  readonly replies: readonly string[]
  /** Whether a reply's probability includes all continuations after it. */
  readonly goesOn?: boolean
  /**
   * Set to rate each token of the suffix, a text without a prefix, and to report this many of the likeliest tokens
   * beside each. There are then no replies, and usage is zero. Only for local models.
   */
  readonly topLogProbs?: number
}

/** Texts and pictures to embed, or pairs to score. */
export interface EmbedWork extends Pick<Work, 'organisation' | 'priority' | 'hold' | 'onBegun' | 'trace'> {
  /** At least one. */
  readonly inputs: readonly EmbedInput[]
  /** Whether longer inputs are truncated to the model's maximum, by engines that can; otherwise they are rejected. */
  readonly truncates?: boolean
}

export interface EmbedInput {
  /** Request parameter that errors about this input name. */
  readonly param: string
  /** One or more texts, tokens of the model, or the pair that a reranker compares. */
  readonly content: EmbedContent | readonly number[] | RankedPair
  /** What the vector is for, in place of the model's default instruction; only for models that take one. */
  readonly instruction?: string
}

/** A text, or pictures and texts that share one vector. */
export type EmbedContent = string | { readonly parts: readonly PromptPart[] }

export interface RankedPair {
  readonly query: EmbedContent
  readonly document: EmbedContent
  /**
   * Maximum tokens of the document, which is truncated, if both are texts; only for local models. Absent for no
   * truncation.
   */
  readonly documentTokens?: number
}
