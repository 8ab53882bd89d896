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
  /** True when completions are read only at their end: an engine may then report their tokens in larger pieces. */
  readonly whole?: boolean
  /** `interactive` by default. */
  readonly priority?: Priority
  /** That of the request which it is for. */
  readonly hold?: Hold | undefined
  /**
   * True for what will hardly be asked about again, such as a frame of a camera: an engine keeps nothing of it once it has
   * ended, in no cache. It may use what other work has left.
   */
  readonly isTransient?: boolean
  /** The adapter of the model that computes it, by its name on the card; absent for the model alone. */
  readonly adapter?: string | undefined
  /** Called when the engine, or a server, begins to compute it. */
  readonly onBegun?: (() => void) | undefined
  /** Absent where the request is not traced. */
  readonly trace?: WorkTrace
}

export interface Branch {
  /** Request parameter that errors about this branch name; `messages` by default. */
  readonly param?: string
  readonly suffix: readonly PromptPart[]
  /** Number of completions to sample from this branch, at least 1. */
  readonly n: number
  /** Maximum tokens per completion; null for as many as the context window leaves. 0 yields an empty completion. */
  readonly maxTokens: number | null
  readonly sampling: Sampling
  /** The form of each completion's text. A completion that is cut at `maxTokens` is the beginning of a valid text. */
  readonly constraint?: Constraint
  /** Present when the prompt ends within a thought: each completion begins with the rest of that thought. */
  readonly thought?: Thought
  /**
   * How many of the likeliest tokens are reported beside each token of the completions, with their log-probabilities; 0
   * for the chosen token alone. Absent where they are not wanted.
   */
  readonly topLogProbs?: number
  /** Whether other work may soon continue its completion: an engine can keep what it has computed of it for a moment. */
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
   * Maximum tokens of the thought; fewer where `maxTokens` would leave no room for `closing` and one token after it.
   * When the budget is used up, or the model ends its turn within the thought, the engine writes `closing` itself and
   * the reply follows.
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
   * Tokens are drawn only if they are at least this likely in relation to the likeliest one, at the temperature. In [0, 1]; 0,
   * the default, is off.
   */
  readonly minP?: number
  /**
   * Positive logits of tokens in the prompt's text and in the completion are divided by it, negative ones multiplied
   * (https://arxiv.org/abs/1909.05858). More than 0; 1, the default, is off.
   */
  readonly repetitionPenalty?: number
  /**
   * An integer from 0 to 2^32 - 1: the same work with the same seed is sampled with the same random numbers. Absent: others
   * each time. Servers of other engines take it as far as they can.
   */
  readonly seed?: number
}

/** Questions about a shared prefix, and the replies to each whose probability is asked for. */
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
  /** Whether the replies count however the model would go on after them. */
  readonly goesOn?: boolean
  /**
   * Present where it is asked how likely each token of the suffix is, a text without a prefix before it, and how many of the
   * likeliest are reported beside it. There are no replies then, and its usage is zero. Only for local models.
   */
  readonly topLogProbs?: number
}

/** Texts and pictures whose vectors are asked for, or pairs whose scores are. */
export interface EmbedWork extends Pick<Work, 'organisation' | 'priority' | 'hold' | 'onBegun' | 'trace'> {
  /** At least one. */
  readonly inputs: readonly EmbedInput[]
  /** Whether longer inputs are cut to what the model takes, by engines that can; otherwise they are refused. */
  readonly truncates?: boolean
}

export interface EmbedInput {
  /** Request parameter that errors about it name. */
  readonly param: string
  /** A text or more, its tokens as the model takes them, or what a reranker compares. */
  readonly content: EmbedContent | readonly number[] | RankedPair
  /** What its vector is for, in place of what the model is usually told; only for models that are told it. */
  readonly instruction?: string
}

/** A text; or pictures and texts, all of which together have one vector. */
export type EmbedContent = string | { readonly parts: readonly PromptPart[] }

export interface RankedPair {
  readonly query: EmbedContent
  readonly document: EmbedContent
  /** After how many tokens the document is cut, where both are texts; only for local models. Absent where it is not. */
  readonly documentTokens?: number
}
