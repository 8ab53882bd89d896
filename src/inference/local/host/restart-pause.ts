/** Pause before the first restart, in ms; doubled for each further one, until a process proves stable. */
const FIRST_MS = 250
/** The limit keeps anyone who can crash the process from taking it down for long. */
const LONGEST_MS = 8_000
/** A process is stable when it has run this long, in ms, or has completed this many requests. */
const STABLE_MS = 10_000
const STABLE_REQUESTS = 3

/** Decides how long to wait before restarting an engine process that ended by itself. */
export class RestartPause {
  #restarts = 0

  /** @param life of the process that ended. @returns milliseconds. */
  next(life: { readonly ms: number; readonly servedRequests: number }): number {
    if (life.ms >= STABLE_MS || life.servedRequests >= STABLE_REQUESTS) this.#restarts = 0
    return Math.min(LONGEST_MS, FIRST_MS * 2 ** this.#restarts++)
  }
}
