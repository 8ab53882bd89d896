import type { AnnotationFormat } from '../../grounding/hints.ts'
import type { Sampling } from '../../inference/contract/work.ts'

/** The options of a reply, which chat and multilook requests share. */
export interface ReplyOptions {
  /** Null for the model's own limit. */
  readonly maxTokens: number | null
  /** The parameter that set `maxTokens`, for errors. */
  readonly maxTokensParam: 'max_completion_tokens' | 'max_tokens'
  /**
   * Whether `maxTokens` is a bound and no wish: where the model or its context has room for fewer, the reply has fewer. By
   * default such a request is an error.
   */
  readonly clampsTokens?: boolean | undefined
  readonly sampling: Sampling
  /** How many of the likeliest tokens are told beside each token; null without log-probabilities. */
  readonly topLogProbs: number | null
  readonly reasoningEffort: ReasoningEffort | null
  /** The most tokens of the reasoning, where it is on; by default those of the tier. */
  readonly thoughtBudget?: number | undefined
  readonly vision: VisionConfig
}

export type ReasoningEffort = 'none' | 'minimal' | 'low' | 'medium' | 'high'

/** A null means that the client did not set the field. */
export interface VisionConfig {
  readonly annotationFormat: AnnotationFormat | null
  readonly enableThinking: boolean | null
  readonly enableAudioInVideo: boolean | null
  readonly focus: boolean | null
}
