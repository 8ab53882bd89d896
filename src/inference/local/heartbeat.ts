/** The engine process says this often that its main thread gets on, in ms. It cannot while a native call runs. */
export const HEARTBEAT_MS = 500
/** However fast a machine is, less silence than this may be its own, as when its disk wakes up; in ms. */
const SHORTEST_LIMIT_MS = 10_000
/** Where other programs are busy, steps take many times as long. Up to so long a silence, they may. */
const BUSY_LIMIT_MS = 30_000
const LIMIT_IN_BUSY_STEPS = 100
/** A step over a full context takes longer than the ones that were measured, over an empty one. */
const LIMIT_IN_STEPS = 20

/** How long the main thread of a healthy engine may be silent, by the longest step that was measured; in ms. */
export function silenceLimit(longestStepMs: number): number {
  const busy = Math.min(BUSY_LIMIT_MS, LIMIT_IN_BUSY_STEPS * longestStepMs)
  return Math.max(SHORTEST_LIMIT_MS, busy, LIMIT_IN_STEPS * longestStepMs)
}

/** A thread of the engine process says this often that the process runs, whatever its main thread is at; in ms. */
export const PULSE_MS = 500
/** Without a pulse for so long, in ms, a process is stopped or worse. */
export const PULSE_LIMIT_MS = 8_000
/** Number of the open file that the pulse goes to. */
export const PULSE_FILE = 4

/** A stage of loading may read all of the weights, from a disk that is no slower than this. */
const LOAD_BYTES_PER_MS = 20_000
const SHORTEST_LOAD_LIMIT_MS = 120_000

/** How long a process that loads so many bytes of weights may say nothing of a further stage; in ms. */
export function loadSilenceLimit(weightBytes: number): number {
  return Math.max(SHORTEST_LOAD_LIMIT_MS, weightBytes / LOAD_BYTES_PER_MS)
}

/**
 * Watches for signs of life, of which one should come every half second. Silence is counted in beats that should have come
 * while this process ran: after a machine slept, or this process was stopped, no time has passed.
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
