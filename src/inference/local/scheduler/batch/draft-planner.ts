import type { BatchSplitter } from './batch-splitter.ts'
import type { Draft } from './drafter.ts'

/**
 * Maximum tokens of a draft. On a CPU with quantised weights, rows are cheap only by the dozen: with 0.5B on two cores, a
 * step of one row took 17 ms, of two 41, of 8 66, and of 16 75.
 */
export const LONGEST_DRAFT = 15
/** Drafts must be expected to save at least this fraction of the time per token; less is within the noise of calibration. */
const WORTHWHILE_SAVING = 0.15
/**
 * Weight of the newest step in the running averages; and the rate at which the average with drafts approaches the other in
 * steps without drafts.
 */
const AVERAGE_WEIGHT = 0.2
const FORGETTING = 1 / 64

/**
 * Decides how much of each draft a step verifies, to maximise the tokens per time of all sequences together. The value of a
 * row is the chance that its draft token is accepted. Calibration measured rows at the start of a context; the planner owns
 * the current ratio to these times, with drafts and without. The batch builder asks it and has it learn from each step.
 */
export class DraftPlanner {
  readonly #splitter: Pick<BatchSplitter, 'batchMs'>
  /** By number of decode rows: whether drafts could pay off if all of them were accepted. */
  readonly #mayPay: boolean[] = []
  /** Duration of a step relative to calibration. */
  #plain = 1
  #drafted = 1

  constructor(splitter: Pick<BatchSplitter, 'batchMs'>) {
    this.#splitter = splitter
  }

  /** Whether drafts could pay off in a step of `rows` decode rows. */
  mayPay(rows: number): boolean {
    this.#mayPay[rows] ??= Array.from({ length: LONGEST_DRAFT }, (_, at) => rows + at + 1).some(
      (count) =>
        this.#splitter.batchMs(count) / count < (this.#splitter.batchMs(rows) / rows) * (1 - WORTHWHILE_SAVING),
    )
    return this.#mayPay[rows]
  }

  /**
   * @param rows of the step without drafts.
   * @param most maximum rows of the step.
   * @returns for each draft, how many of its tokens to verify; all zero if drafts do not pay off.
   */
  plan(drafts: readonly Draft[], rows: number, most: number): number[] {
    const lengths = drafts.map(() => 0)
    const likeliest = drafts
      .flatMap(({ chances }, index) => chances.map((chance) => ({ index, chance })))
      .sort((a, b) => b.chance - a.chance)
      .slice(0, Math.max(0, most - rows))
    let expected = rows
    let best = ((this.#plain * this.#splitter.batchMs(rows)) / rows) * (1 - WORTHWHILE_SAVING)
    let count = 0
    for (const [at, { chance }] of likeliest.entries()) {
      expected += chance
      const tokenMs = (this.#drafted * this.#splitter.batchMs(rows + at + 1)) / expected
      if (tokenMs >= best) continue
      best = tokenMs
      count = at + 1
    }
    // The chances of a draft only fall, so the chosen tokens are its beginning.
    for (const { index } of likeliest.slice(0, count)) lengths[index]!++
    return lengths
  }

  /** Learns from a decode step. @param rows including drafts. */
  learn(rows: number, hasDrafts: boolean, ms: number): void {
    const seen = ms / this.#splitter.batchMs(rows)
    if (hasDrafts) this.#drafted += AVERAGE_WEIGHT * (seen - this.#drafted)
    else {
      this.#plain += AVERAGE_WEIGHT * (seen - this.#plain)
      // One slow step must not disable drafts for good.
      this.#drafted += FORGETTING * (this.#plain - this.#drafted)
    }
  }
}
