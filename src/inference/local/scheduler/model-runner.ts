import type { BatchSplitter } from './batch-splitter.ts'
import type { LoadedModel } from './loaded-model.ts'
import type { RunningSequence } from './sequence-group.ts'
import { type Step, StepError, type TextStep } from './step.ts'
import { ThreadCount } from './thread-count.ts'

/** The next token of a sequence, or why there is none. */
export type Sampled = RunningSequence & ({ readonly token: number } | { readonly error: Error })

export interface StepResult {
  readonly sampled: readonly Sampled[]
  /** Duration of the native call of a text step. */
  readonly decodeMs: number
}

const NOTHING: StepResult = { sampled: [], decodeMs: 0 }

/**
 * Computes steps: fills the native batch, decodes it, and samples next tokens. It decides nothing and keeps nothing from
 * one step to the next but the number of threads. The scheduler calls it with what the batch builder has decided.
 */
export class ModelRunner {
  readonly #loaded: LoadedModel

  readonly #threads: ThreadCount

  constructor(loaded: LoadedModel, splitter: BatchSplitter) {
    this.#loaded = loaded
    this.#threads = new ThreadCount(splitter, loaded.context.threads)
  }

  /** Blocks. @throws StepError */
  run(step: Step): StepResult {
    if (step.type === 'text') return this.#runText(step)
    const { prefill, number } = step
    try {
      if (step.type === 'encode') prefill.cursor.encodeMedia(number)
      else prefill.cursor.decodeMedia(this.#loaded, step.rows, number)
    } catch (error) {
      throw new StepError([prefill.group], error)
    }
    return NOTHING
  }

  #runText({ decoding, prefills, number, round, rows: batchRows }: TextStep): StepResult {
    const { context, kv } = this.#loaded
    const { batch } = context
    const rows: { readonly running: RunningSequence; readonly row: number }[] = []
    for (const running of decoding) rows.push({ running, row: running.sequence.addRow(batch, kv, round) })
    for (const { cursor, group, rows: count, next } of prefills) {
      cursor.addText(batch, kv, count, number)
      if (next !== null) rows.push({ running: { group, sequence: next }, row: next.addRow(batch, kv, round) })
    }
    context.setThreads(this.#threads.current)
    const started = performance.now()
    try {
      context.decodeBatch()
    } catch (error) {
      batch.clear()
      throw new StepError(
        [...decoding, ...prefills].map(({ group }) => group),
        error,
      )
    }
    const decodeMs = performance.now() - started
    this.#threads.learn(batchRows, decodeMs)
    return { sampled: rows.map(({ running, row }) => this.#sample(running, row)), decodeMs }
  }

  #sample(running: RunningSequence, row: number): Sampled {
    try {
      return { ...running, token: running.sequence.sample(this.#loaded.context, row) }
    } catch (thrown) {
      return { ...running, error: thrown instanceof Error ? thrown : new Error(String(thrown)) }
    }
  }
}
