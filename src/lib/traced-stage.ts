/** A stage of a request, as its trace shows it. */
export interface TracedStage {
  /** Headers with which a request to another server continues the trace (W3C Trace Context). */
  readonly headers: Readonly<Record<string, string>>
  /**
   * Idempotent.
   * @param error why the stage failed; absent if it succeeded.
   */
  end(error?: unknown): void
}
