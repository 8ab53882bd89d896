/** Duration of a decode call of so many rows, in ms. */
export interface StepTime {
  readonly rows: number
  readonly ms: number
}

/** Splitting must promise at least this part of the time, or the noise of the measurement would decide. */
const WORTHWHILE_SAVING = 0.1
/** Rows of a batch in which the weights are hardly read for any single one of them. */
const LARGE_BATCH = 64

/** Decides from measured step times how many rows go into one decode call. */
export class BatchSplitter {
  /** By rows that wait: how many of them to decode first. */
  readonly #first: readonly number[]
  /** By rows that wait: expected duration of decoding all of them, in ms. */
  readonly #best: readonly number[]
  /** Expected duration of a row in a large batch, in ms. */
  readonly rowMs: number
  /** Expected duration of the largest batch, in ms. */
  readonly fullBatchMs: number

  /** @param measured in ascending order of rows, from 1 on. */
  constructor(measured: readonly StepTime[], maxRows: number, batchRows: number) {
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
    this.rowMs = interpolate(measured, LARGE_BATCH) / LARGE_BATCH
  }

  /** Expected time to decode so many rows, in as many calls as are fastest; in ms. */
  roundMs(rows: number): number {
    return this.#best[rows] ?? rows * this.rowMs
  }

  /** Of so many rows that wait for a decode call, how many to take into the next one. */
  firstOf(rows: number): number {
    return this.#first[rows] ?? rows
  }
}

function interpolate(measured: readonly StepTime[], rows: number): number {
  const after = measured.findIndex((step) => step.rows >= rows)
  // Beyond the table time is taken to grow with the rows, as it does once the processor is the limit.
  if (after < 0) {
    const last = measured.at(-1)
    return last === undefined ? 0 : (last.ms * rows) / last.rows
  }
  const upper = measured[after]!
  const lower = measured[after - 1]
  if (lower === undefined || upper.rows === rows) return upper.ms
  return lower.ms + ((upper.ms - lower.ms) * (rows - lower.rows)) / (upper.rows - lower.rows)
}
