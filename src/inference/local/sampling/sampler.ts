import type { Ask } from '../native/choice.ts'
import type { Context } from '../native/context.ts'

/** Rows of logits of the last decoded batch, from which tokens are chosen. */
export type Rows = Pick<Context, 'choose'>

export interface TokenSampler {
  /**
   * What it will ask of the next row, so that the answer can be computed before; it changes nothing.
   * @param ahead tokens that are taken to be given before that.
   * @returns null where it will not look at the row, or cannot say.
   */
  ask(ahead?: readonly number[]): Ask | null
  /** Chooses a token from one row of the last decoded batch. */
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
  ask(ahead?: readonly number[], allowed?: Int32Array): Ask
  sample(rows: Rows, row: number, allowed?: Int32Array): number
  /** Counts a token that was not sampled. */
  accept(token: number): void
}
