/** Pause before the first restart, in ms; doubled for each further one, until a process proves stable. */
const FIRST_MS = 250
/** The limit keeps anyone who can crash the process from taking it down for long. */
const LONGEST_MS = 8_000
/** A process is stable when it has run this long, in ms, or has completed this many requests. */
const STABLE_MS = 10_000
const STABLE_REQUESTS = 3

/** How long a process ran after it was ready, and what it completed. */
export interface Life {
  readonly ms: number
  readonly servedRequests: number
}

export function isStable({ ms, servedRequests }: Life): boolean {
  return ms >= STABLE_MS || servedRequests >= STABLE_REQUESTS
}

/** Decides how long to wait before restarting an engine process that ended by itself. */
export class RestartPause {
  #restarts = 0

  /** @param life of the process that ended. @returns milliseconds. */
  next(life: Life): number {
    if (isStable(life)) this.#restarts = 0
    return Math.min(LONGEST_MS, FIRST_MS * 2 ** this.#restarts++)
  }
}
