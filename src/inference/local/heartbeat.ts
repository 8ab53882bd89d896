/** Interval of the heartbeats of the engine's main thread, in ms. A native call delays them. */
export const HEARTBEAT_MS = 500
/** A shorter silence may be the machine's own, for example when a disk wakes up; in ms. */
const SHORTEST_LIMIT_MS = 10_000
/** Maximum extra time for steps on a machine that is busy with other programs, in ms. */
const BUSY_LIMIT_MS = 30_000
const LIMIT_IN_BUSY_STEPS = 100
/** Limit as a multiple of the longest step. Steps are measured with an empty context; with a full one they take longer. */
const LIMIT_IN_STEPS = 20
/** Limit as a multiple of the longest encoding, whose time depends on the size of the image alone. */
const LIMIT_IN_ENCODINGS = 8

/**
 * How long the main thread of a healthy engine may be silent, in ms.
 * @param longestStepMs the longest measured step.
 * @param longestEncodeMs encoding time of the largest image.
 */
export function silenceLimit(longestStepMs: number, longestEncodeMs: number): number {
  const busy = Math.min(BUSY_LIMIT_MS, LIMIT_IN_BUSY_STEPS * Math.max(longestStepMs, longestEncodeMs))
  return Math.max(SHORTEST_LIMIT_MS, busy, LIMIT_IN_STEPS * longestStepMs, LIMIT_IN_ENCODINGS * longestEncodeMs)
}

/** Interval of the pulses that a thread of the engine process sends, independently of the main thread; in ms. */
export const PULSE_MS = 500
/** A process that sends no pulse for this long is stopped or starved; in ms. */
export const PULSE_LIMIT_MS = 8_000
/** File descriptor that the pulses are written to. */
export const PULSE_FILE = 4

/** Lowest supported disk speed: one stage of loading may read all of the weights. */
const LOAD_BYTES_PER_MS = 20_000
const SHORTEST_LOAD_LIMIT_MS = 120_000

/** How long one stage of loading may take for this many bytes of weights, in ms. */
export function loadSilenceLimit(weightBytes: number): number {
  return Math.max(SHORTEST_LOAD_LIMIT_MS, weightBytes / LOAD_BYTES_PER_MS)
}

/**
 * Watches for signs of life, expected every half second. It counts the beats missed while this process itself ran, so
 * time during which the machine slept or this process was stopped does not count as silence.
 */
export class HeartbeatMonitor {
  readonly #timer: NodeJS.Timeout
  #missed = 0

  /** @param onSilence called once, after `limitMs` without a beat. */
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
