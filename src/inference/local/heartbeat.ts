/** The engine process says this often that it is alive, in ms. It cannot while a native call runs. */
export const HEARTBEAT_MS = 500
/** However fast a machine is, less silence than this may be its own, as when its disk wakes up; in ms. */
const SHORTEST_LIMIT_MS = 30_000
/** A step over a full context takes longer than the ones that were measured, over an empty one. */
const LIMIT_IN_STEPS = 20

/** How long a healthy engine may be silent, by the longest step that was measured; in ms. */
export function silenceLimit(longestStepMs: number): number {
  return Math.max(SHORTEST_LIMIT_MS, LIMIT_IN_STEPS * longestStepMs)
}

/** A stage of loading may read all of the weights, from a disk that is no slower than this. */
const LOAD_BYTES_PER_MS = 20_000
const SHORTEST_LOAD_LIMIT_MS = 120_000

/** How long a process that loads so many bytes of weights may say nothing of a further stage; in ms. */
export function loadSilenceLimit(weightBytes: number): number {
  return Math.max(SHORTEST_LOAD_LIMIT_MS, weightBytes / LOAD_BYTES_PER_MS)
}

/**
 * Watches for signs of life. Silence is counted in beats that should have come while this process ran: after a machine
 * slept, or this process was stopped, no time has passed.
 */
export class HeartbeatMonitor {
  readonly #timer: NodeJS.Timeout
  #missed = 0

  /** @param onSilence called once when nothing was heard for `limitMs`. */
  constructor(limitMs: number, onSilence: () => void) {
    const limit = Math.ceil(limitMs / HEARTBEAT_MS)
    this.#timer = setInterval(() => {
      if (++this.#missed < limit) return
      this.stop()
      onSilence()
    }, HEARTBEAT_MS)
  }

  beat(): void {
    this.#missed = 0
  }

  stop(): void {
    clearInterval(this.#timer)
  }
}
