/** A stage of a request, as its trace shows it. */
export interface TracedStage {
  /** With these headers, a request to another server continues the trace (W3C Trace Context). */
  readonly headers: Readonly<Record<string, string>>
  /** @param error why the stage failed; left out when it did not. Further calls change nothing. */
  end(error?: unknown): void
}
