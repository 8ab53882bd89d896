import { type Compute, OWN_KERNELS } from '../../native/compute.ts'

interface Gear {
  /** Maximum duration of a prefill step, in ms: a request that arrives meanwhile waits for it. */
  readonly stepMs: number
  /** With a slow model, a step may take as long as this many rows at the start of a prompt. */
  readonly worthwhileRows: number
  /**
   * With a model of medium speed, a step may take as long as this many rows, up to `longStepMs`. A short prompt is then one
   * step, and fewer decode steps include prompt rows.
   */
  readonly efficientRows: number
  readonly longStepMs: number
}

const ALONE: Gear = { stepMs: 30, worthwhileRows: 64, efficientRows: 128, longStepMs: 250 }
/**
 * A long prompt takes somewhat longer, and an arriving request waits somewhat less. Running streams still get ten tokens a
 * second.
 */
const IN_COMPANY: Gear = { stepMs: 16, worthwhileRows: 32, efficientRows: 128, longStepMs: 100 }
/** Maximum duration of a step while more urgent work is likely to arrive, in ms. */
export const MAKING_WAY_MS = 3
const MAKING_WAY: Gear = { stepMs: MAKING_WAY_MS, worthwhileRows: 8, efficientRows: 0, longStepMs: 0 }
/** For this long after several requests were running, another one is likely to arrive; in ms. */
const COMPANY_MS = 1000
/** Weight of the newest step in the running averages. */
const AVERAGE_WEIGHT = 0.2
/** Steps whose rows attend to more cells than this on average measure the cost of a cell; other steps, that of a row. */
const TELLING_CELLS = 1024

/**
 * Decides how many prompt rows a step prefills, so that no step takes long. The cost of a row grows with the cells that it
 * attends to: a batch that takes a moment at the start of a long prompt takes seconds at its end. It owns the measured costs
 * of rows and cells. The batch builder asks it and has it learn from each step.
 */
export class PrefillPace {
  readonly #mostRows: number
  readonly #fewestRows: Compute['fewestPromptRows']
  readonly #tellingRows: number
  #rowMs: number
  /** Cost of one cell that one row attends to, in ms. */
  #cellMs = 0
  #lastCompany = Number.NEGATIVE_INFINITY
  #gear = ALONE

  /**
   * @param rowMs time per row in a large batch, from calibration.
   * @param compute gives the rows that are worth a step, and those that measure the cost of a row.
   */
  constructor(
    rowMs: number,
    mostRows: number,
    compute: Pick<Compute, 'fewestPromptRows' | 'promptRows'> = OWN_KERNELS,
  ) {
    this.#rowMs = rowMs
    this.#mostRows = mostRows
    this.#fewestRows = compute.fewestPromptRows
    this.#tellingRows = compute.promptRows.telling
  }

  /**
   * Sets the pace for a step.
   * @param requests number of running requests at `now`.
   * @param makesWay whether the step is for less urgent work than is likely to arrive.
   */
  meet(requests: number, makesWay: boolean, now = performance.now()): void {
    if (requests > 1) this.#lastCompany = now
    if (makesWay) this.#gear = MAKING_WAY
    else this.#gear = now - this.#lastCompany < COMPANY_MS ? IN_COMPANY : ALONE
  }

  get makesWay(): boolean {
    return this.#gear === MAKING_WAY
  }

  /** Maximum duration of a step, in ms. */
  get stepMs(): number {
    const { stepMs, worthwhileRows, efficientRows, longStepMs } = this.#gear
    return Math.max(stepMs, worthwhileRows * this.#rowMs, Math.min(longStepMs, efficientRows * this.#rowMs))
  }

  /** Expected time to prefill `rows` rows after `cells` cells, in ms. */
  expectedMs(rows: number, cells: number): number {
    return rows * (this.#rowMs + this.#cellMs * (cells + rows / 2))
  }

  /** Rows after `cells` cells that fit into the time, but no fewer than are worth a step. */
  rowsWithin(ms: number, cells: number): number {
    // `expectedMs` solved for its rows.
    const linear = this.#rowMs + this.#cellMs * cells
    const rows = (2 * ms) / (linear + Math.sqrt(linear ** 2 + 2 * this.#cellMs * ms))
    const fewest = this.#gear === ALONE ? this.#fewestRows.alone : this.#fewestRows.inCompany
    return Math.min(this.#mostRows, Math.max(fewest, Math.floor(rows)))
  }

  /** Learns from a step. @param cells that its rows attended to, summed over all rows. */
  learn(rows: number, cells: number, ms: number): void {
    if (cells > TELLING_CELLS * rows) {
      const cellMs = Math.max(0, ms - rows * this.#rowMs) / cells
      this.#cellMs += AVERAGE_WEIGHT * (cellMs - this.#cellMs)
    } else if (rows >= this.#tellingRows) this.#rowMs += AVERAGE_WEIGHT * (ms / rows - this.#rowMs)
  }
}
