import { modelOverloaded, tryAgainIn } from '../../../lib/errors/errors.ts'
import { GuardedPool } from '../../../lib/guarded/guarded-pool.ts'
import type { PromptText, Vocabulary } from './hub-tokenizer.ts'
import type { TokenizerAnswer, TokenizerQuestion } from './tokenizer-worker.ts'

const WORKER_FILE = new URL('./tokenizer-worker.ts', import.meta.url)
const THREADS = 2
/** A million characters take about a second. */
const LIMIT_MS = 10_000
/** Maximum waiting prompts per organisation. */
const MOST_WAITING = 256

/** Tokenises on other threads; organisations take turns. */
export class TokenizerThreads {
  readonly #pool: GuardedPool<TokenizerQuestion, TokenizerAnswer>

  /** @param folder with the model's tokenizer. */
  constructor(folder: string) {
    this.#pool = new GuardedPool(WORKER_FILE, { threads: THREADS, limitMs: LIMIT_MS, data: folder })
  }

  /** @throws Error if the folder has no usable tokenizer. */
  async vocabulary(): Promise<Vocabulary> {
    const answer = await this.#ask('', { type: 'vocabulary' })
    if (answer?.type !== 'vocabulary') throw new Error(`The tokenizer did not load within ${LIMIT_MS / 1000} s.`)
    return answer.vocabulary
  }

  /**
   * @param groups of texts; each group is tokenised separately.
   * @returns the tokens of each group; null if it takes too long.
   */
  async encode(
    groups: readonly (readonly PromptText[])[],
    organisation: string,
  ): Promise<readonly Int32Array[] | null> {
    if (this.#pool.waiting(organisation) >= MOST_WAITING) {
      const seconds = this.#pool.waitMs(organisation) / 1000
      throw modelOverloaded(`Too many prompts are being read. ${tryAgainIn(seconds)}`, seconds)
    }
    const answer = await this.#ask(organisation, { type: 'encode', groups })
    return answer?.type === 'encoded' ? answer.groups : null
  }

  async close(): Promise<void> {
    await this.#pool.stop()
  }

  async #ask(organisation: string, question: TokenizerQuestion): Promise<TokenizerAnswer | null> {
    const answer = await this.#pool.ask(organisation, question)
    if (answer?.type === 'failed') throw new Error(answer.message)
    return answer
  }
}
