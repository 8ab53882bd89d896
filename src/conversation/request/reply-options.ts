import type { AnnotationFormat } from '../../grounding/hints.ts'
import type { Sampling } from '../../inference/contract/work.ts'
import type { SamplingWish } from '../../media/decoding/process/protocol.ts'

/** The options of a reply, which chat and multilook requests share. */
export interface ReplyOptions {
  /** Null for the model's own limit. */
  readonly maxTokens: number | null
  /** The parameter that set `maxTokens`, for errors. */
  readonly maxTokensParam: 'max_completion_tokens' | 'max_tokens'
  /**
   * Whether `maxTokens` is only an upper bound: if the model or its context has less room, the reply may be shorter. By
   * default such a request is an error.
   */
  readonly clampsTokens?: boolean | undefined
  readonly sampling: Sampling
  /** How many of the likeliest alternatives to report for each token; null without log-probabilities. */
  readonly topLogProbs: number | null
  readonly reasoningEffort: ReasoningEffort | null
  /** Maximum tokens of the reasoning, if it is on; by default the tier's. */
  readonly thoughtBudget?: number | undefined
  readonly vision: VisionConfig
}

export type ReasoningEffort = 'none' | 'minimal' | 'low' | 'medium' | 'high'

/** Null means that the client did not set the field. */
export interface VisionConfig {
  readonly annotationFormat: AnnotationFormat | null
  readonly enableThinking: boolean | null
  readonly enableAudioInVideo: boolean | null
  readonly focus: boolean | null
  readonly videoSampling?: SamplingWish | undefined
}
