/** The state of one text that follows a constraint. */
export interface Matcher {
  /** A bit for each token that may come next. Not to be changed. */
  nextTokens(): Int32Array
  /** False when the token may not come next; the state is then as before. */
  accept(token: number): boolean
  /** Text that comes next in any case; empty when there is a choice. Some of it may not be what `accept` takes. */
  forcedText(): string
}
