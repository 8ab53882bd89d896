import type { Clip, Leaf } from '../../grounding/annotation.ts'
import type { Distribution } from './probabilities.ts'

export interface DecisionReply {
  /** One answer per question, in their order. */
  readonly answers: readonly Answer[]
  readonly usage: DecisionUsage
}

export type Answer = ReadAnswer | FoundAnswer | NoAnswer

/** The probabilities of a question's options: yes and no for a predicate, the numbers for a count. */
interface ReadAnswer {
  readonly type: 'read'
  readonly distribution: Distribution
}

/** The place found, on the grid 0..1000 or in seconds; null if the model says that there is none. */
export interface FoundAnswer {
  readonly type: 'found'
  /** It has an `assetIdx` if the input has several media. */
  readonly place: Leaf | Clip | null
  /** From 0 to 1; null if the engine gives no log-probabilities. */
  readonly confidence: number | null
}

/** The model can give none of the replies, or the engine failed at this question alone. */
interface NoAnswer {
  readonly type: 'none'
  /** Null when the model is the reason. */
  readonly error: unknown
}

export interface DecisionUsage {
  /** Tokens of all questions, each with the whole input. */
  readonly promptTokens: number
  /** Tokens that the questions share, computed once. */
  readonly cachedTokens: number
  /** Only searches for places generate tokens; reading generates none. */
  readonly completionTokens: number
}
