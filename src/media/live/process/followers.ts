import type { Pace } from '../camera-source.ts'

interface Follower {
  pace: Pace
  /** When the next frame is due. */
  due: number
  /** Number of the last frame that it got. */
  last: number
  wants: boolean
}

/** The interval of key frames may exceed the wanted one by this factor. */
const TOLERANCE = 1.1
/** A frame may be late by this share of the interval without delaying the next one. */
const SLACK = 1 / 4

/** The followers of one camera, and when they want a frame. */
export class Followers {
  readonly #followers = new Map<number, Follower>()

  set(number: number, pace: Pace): void {
    const known = this.#followers.get(number)
    if (known === undefined) this.#followers.set(number, { pace, due: 0, last: 0, wants: false })
    else known.pace = pace
  }

  delete(number: number): void {
    this.#followers.delete(number)
  }

  want(number: number): void {
    const follower = this.#followers.get(number)
    if (follower !== undefined) follower.wants = true
  }

  /** The shortest interval at which frames are wanted. */
  get everyMs(): number {
    return Math.min(...[...this.#followers.values()].map(({ pace }) => pace.everyMs))
  }

  /** How long units are kept. */
  get keepMs(): number {
    return Math.max(0, ...[...this.#followers.values()].map(({ pace }) => pace.keepMs ?? 0))
  }

  /**
   * Whether key frames are enough for all followers.
   * @param keyDistanceMs interval of key frames; null while it is unknown.
   */
  needKeysOnly(keyDistanceMs: number | null): boolean {
    return [...this.#followers.values()].every(({ pace: { decode, everyMs } }) => {
      if (decode !== 'auto') return decode === 'key_frames'
      return keyDistanceMs !== null && keyDistanceMs <= everyMs * TOLERANCE
    })
  }

  /** Whether a follower wants this frame now. */
  areDue(frame: number, now: number): boolean {
    return this.#waiting(frame).some(([, { due }]) => due <= now)
  }

  /** Returns the followers that get this frame now. @param frame counts up. */
  take(frame: number, now: number): number[] {
    return this.#waiting(frame).flatMap(([number, follower]) => {
      if (follower.due > now) return []
      const { everyMs } = follower.pace
      const next = follower.due + everyMs
      follower.due = next < now + everyMs * (1 - SLACK) ? now + everyMs : next
      follower.last = frame
      follower.wants = false
      return [number]
    })
  }

  /** When this frame is next due for a follower; null for never. */
  nextDue(frame: number): number | null {
    const due = this.#waiting(frame).map(([, follower]) => follower.due)
    return due.length === 0 ? null : Math.min(...due)
  }

  #waiting(frame: number): [number, Follower][] {
    return [...this.#followers].filter(([, { wants, last }]) => wants && last < frame)
  }
}
