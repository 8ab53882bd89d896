import { isStable, type Life } from './restart-pause.ts'

/** How a process ends that has run into an error in native code. Whoever lacks memory is killed in another way. */
const CRASHES: ReadonlySet<NodeJS.Signals> = new Set(['SIGILL', 'SIGSEGV', 'SIGBUS', 'SIGFPE', 'SIGABRT', 'SIGTRAP'])
/** Crashes in a row that the compiled kernels may be in. */
const MOST_CRASHES = 2

/**
 * Decides whether an engine process runs the kernels that set-up has compiled. Set-up has checked them, but not for every
 * model: after crashes in a row, the prebuilt ones are used.
 */
export class KernelChoice {
  #crashes = 0
  #compiled: boolean

  /** @param compiled whether there are any. */
  constructor(compiled: boolean) {
    this.#compiled = compiled
  }

  /** Whether the next process runs the compiled kernels. */
  get compiled(): boolean {
    return this.#compiled
  }

  /**
   * Notes how a process ended by itself.
   * @param life null when it was never ready: a first start is not tried a third time.
   * @returns whether the choice has changed because of it.
   */
  ended(signal: NodeJS.Signals | null, life: Life | null): boolean {
    if (signal === null || !CRASHES.has(signal)) return false
    if (life !== null && isStable(life)) this.#crashes = 0
    this.#crashes++
    if (!this.#compiled || (life !== null && this.#crashes < MOST_CRASHES)) return false
    this.#compiled = false
    return true
  }
}
