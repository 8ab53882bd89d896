import type { KvSequence } from '../cache/kv-cache.ts'
import { BatchSplitter, type StepTime } from '../scheduler/batch/batch-splitter.ts'
import type { LoadedModel } from '../scheduler/loaded-model.ts'

const ROW_COUNTS = [1, 2, 4, 8, 16, 32, 64, 128]
/** For a model that is so slow that all of them would take long. */
const FEW_ROW_COUNTS = [1, 4, 16, 64]
/** A model whose step of one row takes this long is slow, in ms. */
const SLOW_MS = 50
/** The fastest try counts: whatever slows down a try is the rest of the machine. */
const TRIES = 5
/** Where a kind of step compiles programs before it is fast: with llvmpipe, the first two steps did. */
const COMPILING_TRIES = 3
/** Once this is used up, each row count is tried once; in ms. */
const BUDGET_MS = 200
/** Once this is used up, no further row count is tried: the splitter then takes time to grow with the rows; in ms. */
const LIMIT_MS = 5000
/**
 * Rows of prompts whose first step loads programs of its own, and the longest that one may take for that, in ms: cuBLAS has
 * many, for products of many sizes, and loads each at its first use. A first prompt took 23 ms instead of 13 on an H200.
 */
const PROMPT_SIZES = [128, 192, 256, 384, 768, 1024]
const PROMPT_BUDGET_MS = 100
/** Cells whose cost in a step is measured, and the longest that computing them may take, in ms. */
const IDLE_CELLS = 4096
const IDLE_BUDGET_MS = 1000

/**
 * Measures how long it takes to decode one token for each of 1, 2, 4, ... sequences, and a prompt. Blocks.
 * @param progressed called after each step.
 */
export function calibrate(loaded: LoadedModel, progressed: () => void = () => {}): BatchSplitter {
  const { maxRunning, compute } = loaded
  const fewestTries = compute.compilesAtFirst ? COMPILING_TRIES : 1
  // What steps took at their fastest: compiling does not count.
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
 * Tries row counts again that would be split: one try that another program slowed down would have every later batch of that
 * size computed in parts.
 * @param measured gets the fastest tries.
 * @returns ms that it took.
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
 * How much longer a step of one row takes for each cell that it does not see, in ms: on a device, attention reads masked cells too.
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

/** Duration of so many rows of one prompt. Only its last row has logits, which cost much with a large vocabulary. */
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
