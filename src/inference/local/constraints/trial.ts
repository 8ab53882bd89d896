import { GuardedWorker } from '../../../guarded-worker.ts'
import { FailureError } from '../failure.ts'
import { Refusal } from './refusal.ts'
import type { Verdict } from './trial-worker.ts'
import type { GrammarVocabulary } from './vocabulary.ts'
import type { GrammarSource } from './xgrammar.ts'

const WORKER_FILE = new URL('./trial-worker.ts', import.meta.url)
/** Grammars that may wait for their trial. */
const MOST_WAITING = 64

/** Compiles grammars in another thread, one after the other, to see whether that works and how long it takes. */
export class Trial {
  readonly #worker: GuardedWorker<GrammarSource, Verdict>
  readonly #limitSeconds: number

  constructor(vocabulary: GrammarVocabulary, limitMs: number) {
    this.#worker = new GuardedWorker(WORKER_FILE, vocabulary, limitMs)
    this.#limitSeconds = limitMs / 1000
  }

  /**
   * Resolves when the grammar compiles within the limit.
   * @throws Refusal when it does not, FailureError when too many wait.
   */
  async run(source: GrammarSource): Promise<void> {
    if (this.#worker.waiting >= MOST_WAITING) {
      throw new FailureError({
        kind: 'overloaded',
        message: 'Too many constraints are being compiled. Try again later.',
        retryAfter: Math.ceil(MOST_WAITING * this.#limitSeconds),
      })
    }
    const verdict = await this.#worker.ask(source)
    if (verdict === 'compiled') return
    if (verdict === null) throw new Refusal(`it takes longer than ${this.#limitSeconds} s to compile`)
    // A fault leaves the library in any state.
    await this.#worker.stop()
    throw new Refusal('it cannot be compiled')
  }
}
