/** Pause before the first restart, in ms; doubled with every further one, until a process has proved itself. */
const FIRST_MS = 250
/** However often it ends: whoever can end it must not keep it away for long. */
const LONGEST_MS = 8_000
/** A process has proved itself when it has lived so long, in ms, or has served so many requests to their end. */
const PROVED_MS = 10_000
const PROVED_REQUESTS = 3

/** Decides how long to wait before an engine process that ended by itself is started again. */
export class RestartPause {
  #restarts = 0

  /** @param life of the process that ended. @returns milliseconds. */
  next(life: { readonly ms: number; readonly servedRequests: number }): number {
    if (life.ms >= PROVED_MS || life.servedRequests >= PROVED_REQUESTS) this.#restarts = 0
    return Math.min(LONGEST_MS, FIRST_MS * 2 ** this.#restarts++)
  }
}
