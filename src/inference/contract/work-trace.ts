import type { TracedStage } from '../../lib/traced-stage.ts'
import type { BranchErrorEvent, FinishEvent, PromptUsage } from './generation.ts'

/** Adds the works of one request to the request's trace. */
export interface WorkTracer {
  begin(size: WorkSize): WorkTrace
}

/** Number of branches or questions of a work, and of all their completions. */
export interface WorkSize {
  readonly branches: number
  readonly completions: number
}

/**
 * Adds one work to the request's trace. The engine reports its progress: the work waits until it has started, its
 * prompt is computed until its first text, and its completions are generated until it ends.
 */
export interface WorkTrace {
  admitted(prompts: readonly PromptUsage[]): void
  /** A completion has been scheduled: the prompt is being computed. Idempotent. */
  started(): void
  /** Reports the encoder's time for an image, for frames or for a stretch of audio. */
  encoded(ms: number): void
  /** A server was asked for completions. */
  asked(url: string): TracedStage
  /** The first text has arrived. Idempotent. */
  spoke(): void
  /** A completion, a branch or a question has ended. */
  settled(event: FinishEvent | Pick<BranchErrorEvent, 'type'>): void
  /**
   * Idempotent.
   * @param tokens computed for all completions.
   * @param error why the work failed or was aborted; absent if it succeeded.
   */
  ended(tokens: number, error?: unknown): void
}
