interface Gear {
  /** What a step of a prompt may take, in ms: somebody who comes meanwhile waits for it. */
  readonly stepMs: number
  /** On a model that is slower than that, a step takes as long as so many rows of a prompt that has just begun. */
  readonly worthwhileRows: number
  /** Fewer rows at a time read the weights and the KV cache too often for what they compute. */
  readonly fewestRows: number
}

const ALONE: Gear = { stepMs: 30, worthwhileRows: 64, fewestRows: 16 }
/** Somewhat slower for a long prompt, and somewhat sooner for who comes. */
const IN_COMPANY: Gear = { stepMs: 16, worthwhileRows: 32, fewestRows: 8 }
/** Where several requests were at work so recently, another one is likely to come; in ms. */
const COMPANY_MS = 1000
/** Weight of the newest step in the running averages. */
const AVERAGE_WEIGHT = 0.2
/** Steps whose rows look back at more cells than this, on average, tell what a cell costs; others what a row costs. */
const TELLING_CELLS = 1024

/**
 * Decides how many rows of a prompt are prefilled in a step, so that no step takes long. A row costs more the more cells
 * it looks back at: deep in a long prompt, a batch that took a moment at its beginning takes seconds. What rows and
 * cells cost is learnt from the steps.
 */
export class PrefillPace {
  readonly #mostRows: number
  #rowMs: number
  /** Of one cell that one row looks back at. */
  #cellMs = 0
  #lastCompany = Number.NEGATIVE_INFINITY
  #gear = ALONE

  /** @param rowMs of a row of a large batch, as far as that is known before. */
  constructor(rowMs: number, mostRows: number) {
    this.#rowMs = rowMs
    this.#mostRows = mostRows
  }

  /** Sets the pace for a step. @param requests that are at work, at `now`. */
  meet(requests: number, now = performance.now()): void {
    if (requests > 1) this.#lastCompany = now
    this.#gear = now - this.#lastCompany < COMPANY_MS ? IN_COMPANY : ALONE
  }

  /** Time that a step may take, in ms. */
  get stepMs(): number {
    return Math.max(this.#gear.stepMs, this.#gear.worthwhileRows * this.#rowMs)
  }

  /** Expected time to prefill so many rows behind so many cells, in ms. */
  expectedMs(rows: number, cells: number): number {
    return rows * (this.#rowMs + this.#cellMs * (cells + rows / 2))
  }

  /** Rows behind so many cells that fit into the time; never fewer than are worth a step. */
  rowsWithin(ms: number, cells: number): number {
    // `expectedMs` solved for its rows.
    const linear = this.#rowMs + this.#cellMs * cells
    const rows = (2 * ms) / (linear + Math.sqrt(linear ** 2 + 2 * this.#cellMs * ms))
    return Math.min(this.#mostRows, Math.max(this.#gear.fewestRows, Math.floor(rows)))
  }

  /** Learns from a step. @param cells that its rows looked back at, all rows together. */
  learn(rows: number, cells: number, ms: number): void {
    if (cells > TELLING_CELLS * rows) {
      const cellMs = Math.max(0, ms - rows * this.#rowMs) / cells
      this.#cellMs += AVERAGE_WEIGHT * (cellMs - this.#cellMs)
    } else if (rows >= ALONE.fewestRows) this.#rowMs += AVERAGE_WEIGHT * (ms / rows - this.#rowMs)
  }
}
