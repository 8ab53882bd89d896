import { isStable, type Life } from './restart-pause.ts'

/** How a process ends that has run into an error in native code. Whoever lacks memory is killed in another way. */
const CRASHES: ReadonlySet<NodeJS.Signals> = new Set(['SIGILL', 'SIGSEGV', 'SIGBUS', 'SIGFPE', 'SIGABRT', 'SIGTRAP'])
/** Crashes in a row that the compiled kernels may be in. */
const MOST_CRASHES = 2

/** What a process can do without: GPU backends, and the kernels that set-up has compiled. */
export type Library = 'gpu' | 'kernels'

/**
 * Decides which libraries an engine process runs. A GPU backend may not suit the driver, and ends the process then. The
 * compiled kernels have been checked at set-up, but not for every model. Both are given up after crashes.
 */
export class LibraryChoice {
  #crashes = 0
  readonly #used: Set<Library>

  /** @param present those that there are. */
  constructor(present: readonly Library[]) {
    this.#used = new Set(present)
  }

  /** How many the next process runs. */
  get count(): number {
    return this.#used.size
  }

  /** Whether the next process runs it. */
  uses(library: Library): boolean {
    return this.#used.has(library)
  }

  /**
   * Notes how a process ended by itself.
   * @param life null when none was ever ready: a first start is not tried again with the same libraries.
   * @returns what is given up because of it; null: nothing.
   */
  ended(signal: NodeJS.Signals | null, life: Life | null): Library | null {
    if (signal === null || !CRASHES.has(signal)) return null
    if (life !== null && isStable(life)) this.#crashes = 0
    this.#crashes++
    // A GPU that has computed once suits its backend, and a model may be far too slow without it.
    if (life === null && this.#used.delete('gpu')) return 'gpu'
    if (life !== null && this.#crashes < MOST_CRASHES) return null
    return this.#used.delete('kernels') ? 'kernels' : null
  }
}
