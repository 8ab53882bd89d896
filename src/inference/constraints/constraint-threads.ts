import type { Path } from '../../lib/errors/param.ts'
import { GuardedPool } from '../../lib/guarded/guarded-pool.ts'
import type { Constraint } from '../contract/constraint.ts'
import { withoutLenientSchemas } from './constraint-grammar.ts'
import { UnsupportedConstraint } from './unsupported-constraint.ts'

/** The result of compiling a constraint on a thread. */
export type ConstraintResult<Output> =
  | { readonly type: 'done'; readonly output: Output }
  /** @param path of the unsupported part within the constraint. */
  | { readonly type: 'unsupported'; readonly message: string; readonly path: Path }
  /** A bug in the server. */
  | { readonly type: 'failed'; readonly message: string }

const THREADS = 2
/** Maximum time to compile a constraint, in ms. */
const LIMIT_MS = 3_000
/** Maximum number of waiting constraints per organisation. */
const MOST_WAITING = 64

/** Compiles constraints from clients on threads that can be terminated. */
export class ConstraintThreads<Output> {
  readonly #threads: GuardedPool<Constraint, ConstraintResult<Output>>

  /** @param file entry point of the thread, which calls `answerConstraints`. */
  constructor(file: URL) {
    this.#threads = new GuardedPool(file, { threads: THREADS, limitMs: LIMIT_MS })
  }

  /**
   * Compiles a constraint. One that takes too long is compiled without its lenient schemas.
   * @param organisation for fair turns.
   * @param tooMany makes the error for an organisation with too many waiting constraints, from the seconds until there
   * is room.
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
