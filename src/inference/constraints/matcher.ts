/** The state of one text that follows a constraint. */
export interface Matcher {
  /** A bit for each token that may come next. Read-only. */
  nextTokens(): Int32Array
  /** False if the token may not come next; the state is then unchanged. */
  accept(token: number): boolean
  /** Text that must come next; empty if there is a choice. `accept` may not take all of it. */
  forcedText(): string
}
