import type { Path } from '../../lib/errors/param.ts'
import { GuardedPool } from '../../lib/guarded/guarded-pool.ts'
import type { Constraint } from '../contract/constraint.ts'
import { withoutLenientSchemas } from './constraint-grammar.ts'
import { UnsupportedConstraint } from './unsupported-constraint.ts'

/** What a thread makes of a constraint. */
export type ConstraintResult<Output> =
  | { readonly type: 'done'; readonly output: Output }
  /** @param path of what is not supported within the constraint. */
  | { readonly type: 'unsupported'; readonly message: string; readonly path: Path }
  /** A fault of the server's own. */
  | { readonly type: 'failed'; readonly message: string }

const THREADS = 2
/** Time that a constraint may take, in ms. */
const LIMIT_MS = 3_000
/** Constraints of one organisation that may wait. */
const MOST_WAITING = 64

/** Has threads that can be ended compile constraints of clients. */
export class ConstraintThreads<Output> {
  readonly #threads: GuardedPool<Constraint, ConstraintResult<Output>>

  /** @param file of the thread, which calls `answerConstraints`. */
  constructor(file: URL) {
    this.#threads = new GuardedPool(file, { threads: THREADS, limitMs: LIMIT_MS })
  }

  /**
   * A constraint that takes too long is compiled without its lenient schemas.
   * @param organisation whose turn it is.
   * @param tooMany makes the error for an organisation of which too many wait, from the seconds until there is room.
   * @throws UnsupportedConstraint
   */
  async compile(constraint: Constraint, organisation: string, tooMany: (seconds: number) => Error): Promise<Output> {
    if (this.#threads.waiting(organisation) >= MOST_WAITING) throw tooMany(this.#threads.waitMs(organisation) / 1000)
    const result = await this.#threads.ask(organisation, constraint)
    if (result?.type === 'done') return result.output
    if (result?.type === 'unsupported') throw new UnsupportedConstraint(result.message, result.path)
    if (result?.type === 'failed') throw new Error(result.message)
    const simpler = withoutLenientSchemas(constraint)
    if (simpler !== null) return this.compile(simpler, organisation, tooMany)
    throw new UnsupportedConstraint(`it takes longer than ${LIMIT_MS / 1000} s to compile`)
  }

  async close(): Promise<void> {
    await this.#threads.stop()
  }
}
