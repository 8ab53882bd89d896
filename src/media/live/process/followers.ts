import type { Pace } from '../camera-source.ts'

interface Follower {
  pace: Pace
  /** When the next frame is due. */
  due: number
  /** Which frame was the last. */
  last: number
  wants: boolean
}

/** By how much of their distance key frames may come too seldom. */
const TOLERANCE = 1.1
/** A frame that is due may be this much of the distance late, and the next one is not. */
const SLACK = 1 / 4

/** Those who follow one camera, and when they want a frame. */
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

  /** The shortest distance at which frames are wanted. */
  get everyMs(): number {
    return Math.min(...[...this.#followers.values()].map(({ pace }) => pace.everyMs))
  }

  /** For how long units are to be kept. */
  get keepMs(): number {
    return Math.max(0, ...[...this.#followers.values()].map(({ pace }) => pace.keepMs ?? 0))
  }

  /** Whether key frames, which come at a distance, are enough for all. @param keyDistanceMs null where that is not known. */
  needKeysOnly(keyDistanceMs: number | null): boolean {
    return [...this.#followers.values()].every(({ pace: { decode, everyMs } }) => {
      if (decode !== 'auto') return decode === 'key_frames'
      return keyDistanceMs !== null && keyDistanceMs <= everyMs * TOLERANCE
    })
  }

  /** Whether somebody would take a frame that is newer than the last one, now. */
  areDue(frame: number, now: number): boolean {
    return this.#waiting(frame).some(([, { due }]) => due <= now)
  }

  /** Takes those who get a frame now. @param frame counts up. */
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

  /** When a frame that is there is due next; null for never. */
  nextDue(frame: number): number | null {
    const due = this.#waiting(frame).map(([, follower]) => follower.due)
    return due.length === 0 ? null : Math.min(...due)
  }

  #waiting(frame: number): [number, Follower][] {
    return [...this.#followers].filter(([, { wants, last }]) => wants && last < frame)
  }
}
