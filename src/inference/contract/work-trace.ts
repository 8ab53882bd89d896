import type { TracedStage } from '../../lib/traced-stage.ts'
import type { BranchErrorEvent, FinishEvent, PromptUsage } from './generation.ts'

/** Shows the works of one request in the request's trace. */
export interface WorkTracer {
  begin(size: WorkSize): WorkTrace
}

/** How many branches a work has, or questions, and completions of them all. */
export interface WorkSize {
  readonly branches: number
  readonly completions: number
}

/**
 * Shows one work in the request's trace. The engine reports its progress: the work waits until it has started, its prompt is
 * computed until its first text, and its completions are generated until it ends.
 */
export interface WorkTrace {
  admitted(prompts: readonly PromptUsage[]): void
  /** A completion has its place: computing the prompt begins. Further calls change nothing. */
  started(): void
  /** Reports what the encoder has taken so far for an image, for frames or for a stretch of audio. */
  encoded(ms: number): void
  /** A server is asked for completions. */
  asked(url: string): TracedStage
  /** There is text. Further calls change nothing. */
  spoke(): void
  /** A completion, a branch or a question has ended. */
  settled(event: FinishEvent | Pick<BranchErrorEvent, 'type'>): void
  /**
   * Further calls change nothing.
   * @param tokens that were computed for all completions.
   * @param error why the work failed or was aborted; left out when it did not.
   */
  ended(tokens: number, error?: unknown): void
}
