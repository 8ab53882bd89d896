import type { BatchSplitter } from './batch-splitter.ts'
import type { Draft } from './drafter.ts'

/**
 * Tokens of a draft. On a CPU, rows of quantised weights are cheap only by the dozen: with 0.5B on two cores a step took 17
 * ms for one, 41 for two, 66 for 8, and 75 for 16.
 */
export const LONGEST_DRAFT = 15
/** Drafts must be expected to save at least this share of the time for a token; less is within the noise of calibration. */
const WORTHWHILE_SAVING = 0.15
/** Weights of the newest step in the running averages, and of each step without drafts in what is known of those with them. */
const AVERAGE_WEIGHT = 0.2
const FORGETTING = 1 / 64

/**
 * Decides how much of each draft a step verifies: as much as has the step give the most tokens for its time, all sequences
 * together. A row pays by its token's chance to be right. Calibration measured rows at the start of a context; it owns how
 * much longer than that steps take now, with drafts and without. The batch builder asks it and has it learn from each step.
 */
export class DraftPlanner {
  readonly #splitter: Pick<BatchSplitter, 'batchMs'>
  /** By number of next tokens: whether drafts could pay at all, if all of them were right. */
  readonly #mayPay: boolean[] = []
  /** Duration of a step, over what calibration says. */
  #plain = 1
  #drafted = 1

  constructor(splitter: Pick<BatchSplitter, 'batchMs'>) {
    this.#splitter = splitter
  }

  /** Whether a step with so many next tokens is worth a look for drafts. */
  mayPay(rows: number): boolean {
    this.#mayPay[rows] ??= Array.from({ length: LONGEST_DRAFT }, (_, at) => rows + at + 1).some(
      (count) =>
        this.#splitter.batchMs(count) / count < (this.#splitter.batchMs(rows) / rows) * (1 - WORTHWHILE_SAVING),
    )
    return this.#mayPay[rows]
  }

  /**
   * @param rows that the step computes anyway.
   * @param most rows that it may have.
   * @returns for each draft, how many of its tokens; all zero where drafts do not pay.
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
    // The chances of a draft only fall, so what is taken of it is its beginning.
    for (const { index } of likeliest.slice(0, count)) lengths[index]!++
    return lengths
  }

  /** Learns from a step of next tokens. @param rows with drafts. */
  learn(rows: number, hasDrafts: boolean, ms: number): void {
    const seen = ms / this.#splitter.batchMs(rows)
    if (hasDrafts) this.#drafted += AVERAGE_WEIGHT * (seen - this.#drafted)
    else {
      this.#plain += AVERAGE_WEIGHT * (seen - this.#plain)
      // One slow step must not end drafts for ever.
      this.#drafted += FORGETTING * (this.#plain - this.#drafted)
    }
  }
}
