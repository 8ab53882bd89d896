/** Measured duration of a decode call. */
export interface StepTime {
  readonly rows: number
  readonly ms: number
}

/** A split must save at least this fraction of the time; less is within the noise of the measurement. */
const WORTHWHILE_SAVING = 0.1
/** In a batch of this many rows, reading the weights costs a CPU next to nothing per row. */
const LARGE_BATCH = 64

/**
 * Decides how many of the due rows go into one decode call, by the step times from calibration. Immutable. The batch builder
 * asks it for rows, the queue forecast for expected times.
 */
export class BatchSplitter {
  /** By number of due rows: how many of them to decode first. */
  readonly #first: readonly number[]
  /** By number of due rows: expected time to decode all of them, in ms. */
  readonly #best: readonly number[]
  readonly #measured: readonly StepTime[]
  readonly #batchMs: number[] = []
  /** Expected time per row of a prompt in a large batch, in ms. */
  readonly rowMs: number
  /** Expected duration of the largest batch, in ms. */
  readonly fullBatchMs: number
  /** Additional time of a step per cell that none of its rows attends to, in ms; 0 if not measured. */
  readonly idleCellMs: number

  /**
   * @param measured in ascending order of rows, from 1 on.
   * @param promptRowMs time per prompt row in a large batch; by default that of a decode row.
   */
  constructor(measured: readonly StepTime[], maxRows: number, batchRows: number, promptRowMs?: number, idleCellMs = 0) {
    this.idleCellMs = idleCellMs
    this.#measured = measured
    const best = [0]
    const first = [0]
    for (let rows = 1; rows <= maxRows; rows++) {
      const together = interpolate(measured, rows)
      best.push(together)
      first.push(rows)
      let cheapest = together * (1 - WORTHWHILE_SAVING)
      for (let part = 1; part < rows; part++) {
        const split = interpolate(measured, part) + best[rows - part]!
        if (split >= cheapest) continue
        cheapest = split
        best[rows] = split
        first[rows] = part
      }
    }
    this.#first = first
    this.#best = best
    this.fullBatchMs = interpolate(measured, batchRows)
    this.rowMs = promptRowMs ?? interpolate(measured, LARGE_BATCH) / LARGE_BATCH
  }

  /** Expected time to decode `rows` rows in the fastest number of calls, in ms. */
  roundMs(rows: number): number {
    return this.#best[rows] ?? rows * this.rowMs
  }

  /** Expected time to decode `rows` rows in one call, in ms. */
  batchMs(rows: number): number {
    this.#batchMs[rows] ??= interpolate(this.#measured, rows)
    return this.#batchMs[rows]
  }

  /** Number of the due rows that go into the next decode call. */
  firstOf(rows: number): number {
    return this.#first[rows] ?? rows
  }
}

function interpolate(measured: readonly StepTime[], rows: number): number {
  const after = measured.findIndex((step) => step.rows >= rows)
  // Beyond the table, time is assumed to grow with the rows, as it does when a step is compute-bound.
  if (after < 0) {
    const last = measured.at(-1)
    return last === undefined ? 0 : (last.ms * rows) / last.rows
  }
  const upper = measured[after]!
  const lower = measured[after - 1]
  if (lower === undefined || upper.rows === rows) return upper.ms
  return lower.ms + ((upper.ms - lower.ms) * (rows - lower.rows)) / (upper.rows - lower.rows)
}
