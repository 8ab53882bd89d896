import type { Ask } from '../native/choice.ts'
import type { Context } from '../native/context.ts'

/** Rows of logits of the last decoded batch. */
export type Rows = Pick<Context, 'choose'>

export interface TokenSampler {
  /**
   * The sampling request for the next row, so that the answer can be computed ahead. Changes nothing.
   * @param ahead tokens that are assumed to be accepted before that row.
   * @returns null if it will not use the row, or does not know the request yet.
   */
  ask(ahead?: readonly number[]): Ask | null
  /** Chooses a token from one row of the last decoded batch. */
  sample(rows: Rows, row: number): number
  /** Whether it ended a thought because its budget was used up. */
  readonly thoughtInterrupted?: boolean
  /** Ends the current thought, so that the reply comes next. @returns false if there is no thought. */
  endThought?(): boolean
  /**
   * The next tokens, which do not depend on the logits. They count as chosen.
   * @param most maximum number of tokens.
   */
  forced?(most: number): readonly number[]
}

/** Chooses among all tokens, or among those that a mask allows. */
export interface FreeSampler extends TokenSampler {
  /** @param allowed a bit for each token that may be chosen; see `Matcher.nextTokens`. */
  ask(ahead?: readonly number[], allowed?: Int32Array): Ask
  sample(rows: Rows, row: number, allowed?: Int32Array): number
  /** Chooses a token like `sample`, but does not count it: the caller accepts what it keeps. */
  choose(rows: Rows, row: number, allowed?: Int32Array): number
  /** Counts a token that was not sampled. */
  accept(token: number): void
}
