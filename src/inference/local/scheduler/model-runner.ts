import type { BatchSplitter } from './batch/batch-splitter.ts'
import { type Step, StepError, type TextStep } from './batch/step.ts'
import type { LoadedModel } from './loaded-model.ts'
import type { Generated } from './sequences/sequence.ts'
import type { RunningSequence } from './sequences/sequence-group.ts'
import { ThreadCount } from './thread-count.ts'

export interface StepResult {
  readonly generated: readonly (RunningSequence & Generated)[]
  /** Duration of the native call of a text step. */
  readonly decodeMs: number
}

/** From this many rows on, threads have more work between two barriers, and more of them are worth a separate trial. */
const SEVERAL_ROWS = 4
/** Prompts and media have more rows than this: both use the threads for media. */
const MANY_ROWS = 64

/** A step that has begun. A device may still compute it. */
export interface BegunStep {
  /** Blocks until the step is computed, then samples for its sequences. Call it once. @throws StepError */
  finish(): StepResult
}

const NOTHING: StepResult = { generated: [], decodeMs: 0 }
/** A step that is complete, or none. */
export const DONE: BegunStep = { finish: () => NOTHING }

/**
 * Computes steps: fills the native batch, decodes it, and has the sequences sample from it. It makes no decisions, and its
 * only state between steps is the number of threads. The scheduler calls it with the step from the batch builder.
 */
export class ModelRunner {
  readonly #loaded: LoadedModel
  readonly #fewRows: ThreadCount
  readonly #severalRows: ThreadCount

  constructor(loaded: LoadedModel, splitter: BatchSplitter) {
    this.#loaded = loaded
    const { context, mostThreads } = loaded
    this.#fewRows = new ThreadCount(splitter, context.threads, mostThreads)
    this.#severalRows = new ThreadCount(splitter, context.threads, mostThreads)
  }

  /**
   * Begins a step. On the CPU, it blocks for the whole step; a device still computes text after the call has returned. Finish
   * the step before the next one begins. @throws StepError
   */
  begin(step: Step): BegunStep {
    if (step.type === 'text') return this.#beginText(step)
    const { prefill, number } = step
    try {
      if (step.type === 'encode') {
        const { priority } = prefill.group
        const ms = prefill.cursor.encodeMedia(number, { ms: step.ms, priority })
        if (ms !== null) prefill.group.report?.({ type: 'encoded', ms })
      } else {
        this.#loaded.context.setThreads(this.#manyThreads)
        this.#loaded.context.setAdapter(step.adapter)
        prefill.cursor.decodeMedia(this.#loaded, step.rows, number)
      }
    } catch (error) {
      throw new StepError([prefill.group], error)
    }
    return DONE
  }

  /** Threads for media and prompts: fewer if fewer are faster for decoding. */
  get #manyThreads(): number {
    const { mediaThreads } = this.#loaded
    for (const counts of [this.#severalRows, this.#fewRows])
      if (counts.isLow) return Math.min(mediaThreads, counts.next(false))
    return mediaThreads
  }

  #beginText({ adapter, decoding, prefills, number, round, rows: batchRows }: TextStep): BegunStep {
    const { context, kv, model } = this.#loaded
    const { batch } = context
    const rows: { readonly running: RunningSequence; readonly row: number }[] = []
    for (const { group, sequence, draft } of decoding) {
      rows.push({ running: { group, sequence }, row: sequence.addRows(batch, kv, round, draft) })
    }
    for (const { cursor, group, rows: count, next } of prefills) {
      cursor.addText(batch, kv, count, number)
      if (next !== null) rows.push({ running: { group, sequence: next }, row: next.addRows(batch, kv, round) })
    }
    const isComparable = prefills.length === 0
    const counts = batchRows < SEVERAL_ROWS ? this.#fewRows : this.#severalRows
    context.setThreads(batchRows < MANY_ROWS ? counts.next(isComparable) : this.#manyThreads)
    const started = performance.now()
    const guarded = (work: () => void) => {
      try {
        work()
      } catch (error) {
        throw new StepError(
          [...decoding, ...prefills].map(({ group }) => group),
          error,
        )
      }
    }
    guarded(() => {
      context.setAdapter(adapter)
      context.launchBatch()
    })
    // Constraint masks take time, so they are made while the device computes.
    if (context.keepsLogits) guarded(() => context.ask(rows.flatMap(({ running, row }) => running.sequence.asks(row))))
    const finish = () => {
      guarded(() => context.wait())
      const decodeMs = performance.now() - started
      if (isComparable && batchRows < MANY_ROWS) counts.learn(batchRows, decodeMs)
      const generated = rows.map(({ running, row }) => ({
        ...running,
        ...running.sequence.generate(context, row, kv, model),
      }))
      return { generated, decodeMs }
    }
    return { finish }
  }
}
