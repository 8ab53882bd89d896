import type { KvSequence } from '../cache/kv-cache.ts'
import { BatchSplitter, type StepTime } from '../scheduler/batch/batch-splitter.ts'
import type { LoadedModel } from '../scheduler/loaded-model.ts'

const ROW_COUNTS = [1, 2, 4, 8, 16, 32, 64, 128]
/** Row counts for a slow model, where measuring all of them would take long. */
const FEW_ROW_COUNTS = [1, 4, 16, 64]
/** A model whose step of one row takes this long is slow, in ms. */
const SLOW_MS = 50
/** The fastest try counts: the rest of the machine slows down the others. */
const TRIES = 5
/** Tries where the first steps of a kind compile device kernels: with llvmpipe, two steps did. */
const COMPILING_TRIES = 3
/** Once this is used up, each row count is tried once; in ms. */
const BUDGET_MS = 200
/** Once this is used up, no further row count is tried: the splitter then takes time to grow with the rows; in ms. */
const LIMIT_MS = 5000
/**
 * Prompt sizes whose first step loads kernels, and the maximum time for each, in ms. cuBLAS has kernels for many product
 * sizes and loads each at first use: a first prompt took 23 ms instead of 13 on an H200.
 */
const PROMPT_SIZES = [128, 192, 256, 384, 768, 1024]
const PROMPT_BUDGET_MS = 100
/** Cells whose cost per step is measured, and the maximum time to fill them, in ms. */
const IDLE_CELLS = 4096
const IDLE_BUDGET_MS = 1000

/**
 * Measures the decode time of one token for each of 1, 2, 4, ... sequences, and of a prompt. Blocks.
 * @param progressed called after each step.
 */
export function calibrate(loaded: LoadedModel, progressed: () => void = () => {}): BatchSplitter {
  const { maxRunning, compute } = loaded
  const fewestTries = compute.compilesAtFirst ? COMPILING_TRIES : 1
  // Sum of the fastest tries, which excludes compilation.
  let spentMs = 0
  const measured: StepTime[] = []
  let counts = ROW_COUNTS
  for (let rows = 1; ; rows = Math.min(maxRunning, counts.find((count) => count > rows) ?? maxRunning)) {
    let ms = Number.POSITIVE_INFINITY
    let tries = 0
    while (tries < fewestTries || (tries < TRIES && spentMs + tries * ms < BUDGET_MS)) {
      ms = Math.min(ms, measureStep(loaded, rows))
      tries++
      progressed()
    }
    spentMs += tries * ms
    measured.push({ rows, ms })
    if (rows === 1 && ms > SLOW_MS) counts = FEW_ROW_COUNTS
    if (rows === maxRunning || spentMs > LIMIT_MS) break
  }
  const { capacity } = loaded.context.batch
  spentMs += retrySplits(loaded, measured, spentMs, progressed)
  const promptRows = Math.min(compute.promptRows.calibrated, capacity)
  const splitter = new BatchSplitter(measured, maxRunning, capacity)
  if (spentMs + splitter.rowMs * promptRows > LIMIT_MS) return splitter
  let promptMs = Number.POSITIVE_INFINITY
  for (let i = 0; i < fewestTries || (i === 1 && spentMs < BUDGET_MS); i++) {
    promptMs = Math.min(promptMs, measurePrompt(loaded, promptRows))
    progressed()
  }
  if (compute.compilesAtFirst) {
    const sizes = PROMPT_SIZES.filter((rows) => rows <= capacity && (promptMs * rows) / promptRows < PROMPT_BUDGET_MS)
    for (const rows of sizes) {
      measurePrompt(loaded, rows)
      progressed()
    }
  }
  const idleCellMs = compute.keepsCells ? measureIdleCell(loaded, promptRows, promptMs, progressed) : 0
  return new BatchSplitter(measured, maxRunning, capacity, promptMs / promptRows, idleCellMs)
}

/**
 * Repeats the measurement of row counts that would be split. Otherwise one try that another program slowed down would split
 * every later batch of that size.
 * @param measured receives the fastest tries.
 * @returns time that it took, in ms.
 */
function retrySplits(loaded: LoadedModel, measured: StepTime[], spentMs: number, progressed: () => void): number {
  const { capacity } = loaded.context.batch
  let retriedMs = 0
  for (const [index, { rows }] of measured.entries()) {
    for (let tries = 1; tries < TRIES && spentMs + retriedMs < LIMIT_MS; tries++) {
      if (new BatchSplitter(measured, rows, capacity).firstOf(rows) === rows) break
      const ms = measureStep(loaded, rows)
      progressed()
      retriedMs += ms
      measured[index] = { rows, ms: Math.min(ms, measured[index]!.ms) }
    }
  }
  return retriedMs
}

/**
 * Additional time of a one-row step per cell that it does not attend to, in ms: on a device, attention reads masked cells
 * too.
 * @param ms duration of a prompt of `rows` rows.
 */
function measureIdleCell(loaded: LoadedModel, rows: number, ms: number, progressed: () => void): number {
  const { kv } = loaded
  const prompts = Math.floor(Math.min(Math.min(IDLE_CELLS, kv.freeCells / 2) / rows, IDLE_BUDGET_MS / ms))
  const held: KvSequence[] = []
  const stepMs = () => {
    let fastest = Number.POSITIVE_INFINITY
    for (let i = 0; i < TRIES; i++) fastest = Math.min(fastest, measureStep(loaded, 1))
    progressed()
    return fastest
  }
  const before = stepMs()
  for (let i = 0; i < Math.min(prompts, kv.freeSequences - 1); i++) {
    const sequence = fill(loaded, rows)
    loaded.context.decodeBatch()
    held.push(sequence)
    progressed()
  }
  const more = held.length === 0 ? 0 : (stepMs() - before) / (held.length * rows)
  for (const sequence of held) kv.release(sequence)
  return Math.max(0, more)
}

/** Duration of one prompt of `rows` rows. Only its last row has logits, which are expensive with a large vocabulary. */
function measurePrompt(loaded: LoadedModel, rows: number): number {
  const sequence = fill(loaded, rows)
  const started = performance.now()
  loaded.context.decodeBatch()
  const ms = performance.now() - started
  loaded.kv.release(sequence)
  return ms
}

/** Puts a prompt of `rows` rows into the batch. */
function fill({ context, kv }: LoadedModel, rows: number): KvSequence {
  const sequence = kv.fork(null)
  for (let row = 0; row < rows; row++) {
    context.batch.add(0, sequence.position, sequence.id, row === rows - 1)
    kv.grow(sequence, 1, 1)
  }
  return sequence
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
