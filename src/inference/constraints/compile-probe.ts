import type { Worker } from 'node:worker_threads'
import { GuardedWorker } from '../../lib/guarded-worker.ts'
import { tooMany } from '../local/failure.ts'
import type { GrammarVocabulary } from '../local/sampling/vocabulary.ts'
import type { Verdict } from './compile-probe-worker.ts'
import { GrammarThread } from './grammar-thread.ts'
import { UnsupportedConstraint } from './unsupported-constraint.ts'
import type { GrammarSource } from './xgrammar.ts'

const WORKER_FILE = new URL('./compile-probe-worker.ts', import.meta.url)
/** Grammars that may wait for their trial. */
const MOST_WAITING = 64

export interface TrialLimits {
  /** Time that a grammar may take to compile, in ms. */
  readonly limitMs: number
  /** From this time on it is not to be compiled again, but followed where it was. */
  readonly slowMs: number
}

/** Compiles grammars in another thread, one after the other, to see whether that works and how long it takes. */
export class Trial {
  readonly #worker: GuardedWorker<GrammarSource, Verdict>
  readonly #vocabularySize: number
  readonly #limits: TrialLimits

  constructor(vocabulary: GrammarVocabulary, limits: TrialLimits) {
    this.#worker = new GuardedWorker(WORKER_FILE, vocabulary, limits.limitMs)
    this.#vocabularySize = vocabulary.tokens.length
    this.#limits = limits
  }

  /**
   * Resolves when the grammar compiles within the limit: with the thread that follows it when it was slow, which is the
   * caller's to close, else with null.
   * @throws UnsupportedConstraint when it does not, FailureError when too many wait.
   */
  async run(source: GrammarSource): Promise<GrammarThread | null> {
    const limitSeconds = this.#limits.limitMs / 1000
    if (this.#worker.waiting >= MOST_WAITING) {
      const seconds = (MOST_WAITING * this.#worker.meanMs) / 1000
      throw tooMany('Too many constraints are being compiled.', seconds)
    }
    let kept: Worker | null = null
    const verdict = await this.#worker.ask(source, (answer, take) => {
      if (answer.type === 'compiled' && answer.ms >= this.#limits.slowMs) kept = take()
    })
    if (verdict?.type === 'compiled') return kept === null ? null : new GrammarThread(kept, this.#vocabularySize)
    if (verdict === null) throw new UnsupportedConstraint(`it takes longer than ${limitSeconds} s to compile`)
    // A fault leaves the library in any state.
    await this.#worker.stop()
    throw new UnsupportedConstraint('it cannot be compiled')
  }

  close(): Promise<void> {
    return this.#worker.stop()
  }
}
