import { isStable, type Life } from './restart-pause.ts'

/** Signals of a crash in native code. The system kills a process that lacks memory with another signal. */
const CRASHES: ReadonlySet<NodeJS.Signals> = new Set(['SIGILL', 'SIGSEGV', 'SIGBUS', 'SIGFPE', 'SIGABRT', 'SIGTRAP'])
/** Consecutive crashes after which the compiled kernels are given up. */
const MOST_CRASHES = 2

/** Optional libraries: GPU backends, and the kernels that set-up compiles. */
export type Library = 'gpu' | 'kernels'

/**
 * Decides which libraries an engine process loads. A GPU backend that does not suit the driver ends the process. Set-up has
 * checked the compiled kernels, but not with every model. Crashes disable both.
 */
export class LibraryChoice {
  #crashes = 0
  readonly #used: Set<Library>

  /** @param present the installed libraries. */
  constructor(present: readonly Library[]) {
    this.#used = new Set(present)
  }

  /** Number of libraries that the next process loads. */
  get count(): number {
    return this.#used.size
  }

  /** Whether the next process loads it. */
  uses(library: Library): boolean {
    return this.#used.has(library)
  }

  /**
   * Records how a process ended by itself.
   * @param life null if no process was ever ready: a first start is not retried with the same libraries.
   * @returns the library that is disabled because of it, or null.
   */
  ended(signal: NodeJS.Signals | null, life: Life | null): Library | null {
    if (signal === null || !CRASHES.has(signal)) return null
    if (life !== null && isStable(life)) this.#crashes = 0
    this.#crashes++
    // A GPU that has computed once works with its backend, and the model may be far too slow without it.
    if (life === null && this.#used.delete('gpu')) return 'gpu'
    if (life !== null && this.#crashes < MOST_CRASHES) return null
    return this.#used.delete('kernels') ? 'kernels' : null
  }
}
