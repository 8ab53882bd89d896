/**
 * Work beside completions that the scheduler gives steps to. It has a KV cache of its own, and the two share nothing but
 * time.
 */
export interface SideWork {
  /** Whether there is nothing to compute. */
  readonly isIdle: boolean
  /** Whether all that is to be computed is for nobody who waits. */
  readonly isBackground: boolean
  /** Requests in progress, and those of which nothing has been computed. */
  readonly running: number
  readonly waiting: number
  /** Those of them that nobody waits for. */
  readonly waitingBackground: number
  /** Prompt tokens that were computed. */
  readonly prefilledTokens: number
  /**
   * Makes one native call.
   * @param budgetMs how long it should take, if it can be shortened.
   */
  step(budgetMs: number): void
  /** Frees what a request holds, if there is one of this id. Nothing more is sent for it. */
  abort(id: number): void
}
