import type { Clip, Leaf } from '../../grounding/annotation.ts'
import type { Distribution } from './probabilities.ts'

export interface DecisionReply {
  /** In the order of the questions. */
  readonly answers: readonly Answer[]
  readonly usage: DecisionUsage
}

export type Answer = ReadAnswer | FoundAnswer | NoAnswer

/** How likely the options of a question are; those of a predicate are yes and no, those of a count its numbers. */
interface ReadAnswer {
  readonly type: 'read'
  readonly distribution: Distribution
}

/** What was looked for, on the grid 0..1000 or in seconds; null when the model says that it is not there. */
export interface FoundAnswer {
  readonly type: 'found'
  /** It has an `assetIdx` where the input has several media. */
  readonly place: Leaf | Clip | null
  /** From 0 to 1; null where the engine does not say how likely its tokens were. */
  readonly confidence: number | null
}

/** The model can give none of the replies, or the engine failed at this question alone. */
interface NoAnswer {
  readonly type: 'none'
  /** Null when it is the model. */
  readonly error: unknown
}

export interface DecisionUsage {
  /** Of all questions, each with the whole input. */
  readonly promptTokens: number
  /** What the questions share and is computed once. */
  readonly cachedTokens: number
  /** Reading generates nothing; looking for places does. */
  readonly completionTokens: number
}
