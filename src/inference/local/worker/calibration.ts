import { BatchSplitter, type StepTime } from '../scheduler/batch-splitter.ts'
import type { LoadedModel } from '../scheduler/loaded-model.ts'

const ROW_COUNTS = [1, 2, 4, 8, 16, 32, 64]
/** The fastest try counts: whatever slows down a try is the rest of the machine. */
const TRIES = 5
/** Once this is used up, each row count is tried once; in ms. */
const BUDGET_MS = 200

/** Measures how long it takes to decode one token for each of 1, 2, 4, ... sequences. Blocks. */
export function calibrate(loaded: LoadedModel): BatchSplitter {
  const { maxRunning } = loaded
  const counts = ROW_COUNTS.filter((rows) => rows < maxRunning)
  const started = performance.now()
  const measured = [...counts, maxRunning].map((rows): StepTime => {
    let ms = Number.POSITIVE_INFINITY
    for (let i = 0; i < TRIES && (i === 0 || performance.now() - started < BUDGET_MS); i++) {
      ms = Math.min(ms, measureStep(loaded, rows))
    }
    return { rows, ms }
  })
  return new BatchSplitter(measured, maxRunning, loaded.context.batch.capacity)
}

function measureStep({ context, kv }: LoadedModel, rows: number): number {
  const sequences = Array.from({ length: rows }, () => kv.fork(null))
  for (const sequence of sequences) {
    context.batch.add(0, sequence.position, sequence.id, true)
    kv.grow(sequence, 1, 1)
  }
  const started = performance.now()
  context.decodeBatch()
  const ms = performance.now() - started
  for (const sequence of sequences) kv.release(sequence)
  return ms
}
