import type { Context } from '../native/context.ts'

/** Rows of logits of the last decoded batch, and what can be computed from them. */
export type Rows = Pick<Context, 'logits' | 'operations'>

export interface TokenSampler {
  /** Chooses a token from the logits of one row of the last decoded batch. */
  sample(rows: Rows, row: number): number
  /** Whether it ended a thought because the thought's budget was used up. */
  readonly thoughtInterrupted?: boolean
  /** Ends the current thought, so that the reply comes next. @returns false when there is no thought. */
  endThought?(): boolean
  /**
   * The tokens that come next, whatever the logits are. They count as chosen.
   * @param most number of tokens that there is room for.
   */
  forced?(most: number): readonly number[]
}

/** Chooses among all tokens, or among those that somebody else allows. */
export interface FreeSampler extends TokenSampler {
  /** @param allowed a bit for each token that may be chosen; see `Matcher.nextTokens`. */
  sample(rows: Rows, row: number, allowed?: Int32Array): number
  /** Counts a token that was not sampled. */
  accept(token: number): void
}
