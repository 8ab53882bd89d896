import { LRUCache } from 'lru-cache'
import { type ApiError, invalidRequest, modelOverloaded, tryAgainIn } from '../../lib/errors.ts'
import { GuardedPool } from '../../lib/guarded/guarded-pool.ts'
import type { Path } from '../../lib/param.ts'
import { withoutLenientSchemas } from '../constraints/constraint-grammar.ts'
import { refusal } from '../constraints/refusal.ts'
import type { Constraint } from '../contract/constraint.ts'
import type { WriteResult, WrittenGrammar } from './constraint-worker.ts'

type Written = Exclude<WriteResult, { readonly type: 'failed' }>

const WORKER_FILE = new URL('./constraint-worker.ts', import.meta.url)
const THREADS = 2
/** Time that a constraint may take to be written, in ms. */
const LIMIT_MS = 3_000
/** Constraints of one organisation that may wait. */
const MOST_WAITING = 64
const KEPT_CONSTRAINTS = 256

/** Writes constraints as grammars for another engine, in threads of their own. Those used last are kept. */
export class ConstraintWriter {
  readonly #threads = new GuardedPool<Constraint, WriteResult>(WORKER_FILE, { threads: THREADS, limitMs: LIMIT_MS })
  readonly #kept = new LRUCache<string, Promise<Written>>({ max: KEPT_CONSTRAINTS })

  /**
   * @param organisation whose turn it is.
   * @returns the grammar, in the EBNF of XGrammar.
   * @throws ApiError 400 that names the input at fault when the constraint is not supported.
   */
  async write(constraint: Constraint, organisation: string): Promise<WrittenGrammar> {
    const key = JSON.stringify({ ...constraint, param: undefined })
    let written = this.#kept.get(key)
    if (written === undefined) {
      written = this.#ask(constraint, organisation)
      this.#kept.set(key, written)
      written.catch(() => this.#kept.delete(key))
    }
    const result = await written
    if (result.type === 'written') return result.grammar
    throw notSupported(constraint, result.message, result.path)
  }

  async close(): Promise<void> {
    await this.#threads.stop()
  }

  async #ask(constraint: Constraint, organisation: string): Promise<Written> {
    if (this.#threads.waiting(organisation) >= MOST_WAITING) {
      const seconds = this.#threads.waitMs(organisation) / 1000
      throw modelOverloaded(`Too many constraints are being compiled. ${tryAgainIn(seconds)}`, seconds)
    }
    const result = await this.#threads.ask(organisation, constraint)
    if (result?.type === 'failed') throw new Error(result.message)
    if (result !== null) return result
    const simpler = withoutLenientSchemas(constraint)
    if (simpler !== null) return this.#ask(simpler, organisation)
    return { type: 'unsupported', message: `it takes longer than ${LIMIT_MS / 1000} s to compile`, path: [] }
  }
}

/** @param path of what is not supported within the constraint. */
export function notSupported(constraint: Constraint, problem: string, path?: Path): ApiError {
  const { message, param, code } = refusal(constraint, problem, path)
  return invalidRequest(message, param, { code })
}
