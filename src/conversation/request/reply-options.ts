import type { AnnotationFormat } from '../../grounding/index.ts'
import type { Sampling } from '../../inference/engine.ts'

/** How a reply is to be made: what requests of every kind hold besides their messages. */
export interface ReplyOptions {
  /** Null for as many as the model gives. */
  readonly maxTokens: number | null
  /** The parameter by which the client set `maxTokens`, for errors. */
  readonly maxTokensParam: 'max_completion_tokens' | 'max_tokens'
  readonly sampling: Sampling
  readonly reasoningEffort: ReasoningEffort | null
  readonly vision: VisionConfig
}

export type ReasoningEffort = 'none' | 'minimal' | 'low' | 'medium' | 'high'

/** Nulls stand for what the client left open. */
export interface VisionConfig {
  readonly annotationFormat: AnnotationFormat | null
  readonly enableThinking: boolean | null
  readonly enableAudioInVideo: boolean | null
  readonly focus: boolean | null
}
