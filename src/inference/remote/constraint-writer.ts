import { LRUCache } from 'lru-cache'
import { type ApiError, invalidRequest, modelOverloaded, tryAgainIn } from '../../lib/errors/errors.ts'
import type { Path } from '../../lib/errors/param.ts'
import { getOrMake } from '../../lib/get-or-make.ts'
import { ConstraintThreads } from '../constraints/constraint-threads.ts'
import { refusal } from '../constraints/refusal.ts'
import { UnsupportedConstraint } from '../constraints/unsupported-constraint.ts'
import type { Constraint } from '../contract/constraint.ts'
import type { WrittenGrammar } from './constraint-worker.ts'

const KEPT_CONSTRAINTS = 256

/** Writes constraints as grammars for other engines, on separate threads. Caches the most recently used. */
export class ConstraintWriter {
  readonly #threads = new ConstraintThreads<WrittenGrammar>(new URL('./constraint-worker.ts', import.meta.url))
  readonly #kept = new LRUCache<string, Promise<WrittenGrammar>>({ max: KEPT_CONSTRAINTS })

  /**
   * @param organisation for fair turns.
   * @returns the grammar, in the EBNF of XGrammar.
   * @throws ApiError 400 that names the input at fault if the constraint is not supported.
   */
  async write(constraint: Constraint, organisation: string): Promise<WrittenGrammar> {
    const key = JSON.stringify({ ...constraint, param: undefined })
    const written = getOrMake(this.#kept, key, () => {
      const compiling = this.#threads.compile(constraint, organisation, tooMany)
      compiling.catch((error) => error instanceof UnsupportedConstraint || this.#kept.delete(key))
      return compiling
    })
    try {
      return await written
    } catch (error) {
      throw error instanceof UnsupportedConstraint ? notSupported(constraint, error.message, error.path) : error
    }
  }

  async close(): Promise<void> {
    await this.#threads.close()
  }
}

function tooMany(seconds: number): ApiError {
  return modelOverloaded(`Too many constraints are being compiled. ${tryAgainIn(seconds)}`, seconds)
}

/** @param path of the unsupported part within the constraint. */
export function notSupported(constraint: Constraint, problem: string, path?: Path): ApiError {
  const { message, param, code } = refusal(constraint, problem, path)
  return invalidRequest(message, param, { code })
}
