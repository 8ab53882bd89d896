import { type AccessUnit, isStart } from './camera-session.ts'
import { Lateness } from './lateness.ts'
import type { UnitTime } from './unit-decoder.ts'

/** A unit that came later than usual by more than this belongs to a backlog. */
const LATE_MS = 1_000
/** Maximum size of units that wait to be decoded: a group of pictures of 10 s at 12 Mbit/s. */
const MOST_BYTES = 16 * 2 ** 20
/** The number of key frames from which their interval is measured. */
const MEASURED = 3

export interface WaitingUnit {
  readonly unit: AccessUnit
  readonly time: UnitTime
  /** Whether units before it, a key frame, were skipped. */
  readonly afterSkip: boolean
}

/**
 * Units of one camera that are still to be decoded: at most those from the newest key frame on, which does not depend
 * on earlier ones.
 */
export class UnitQueue {
  readonly #lateness = new Lateness()
  #units: WaitingUnit[] = []
  #bytes = 0
  /** Whether all units up to the next key frame are useless. */
  #needsKey = true
  #hasSkipped = false
  #keyTimes: readonly number[] = []
  /** Whether only key frames are wanted. */
  #isKeysOnly = false
  /** Whether the last unit belongs to a backlog. */
  isLate = false

  /** The longest time between the latest key frames; null before that is known. */
  get keyDistanceMs(): number | null {
    if (this.#keyTimes.length < MEASURED) return null
    return Math.max(...this.#keyTimes.slice(1).map((at, i) => at - this.#keyTimes[i]!))
  }

  get isKeysOnly(): boolean {
    return this.#isKeysOnly
  }

  set isKeysOnly(value: boolean) {
    // Later units depend on those that were not decoded.
    if (this.#isKeysOnly && !value) this.#needsKey = true
    this.#isKeysOnly = value
  }

  add(unit: AccessUnit, now: number): void {
    this.isLate = this.#lateness.of(unit.mediaTime, now) > LATE_MS
    if (unit.isKey) this.#noteKey(unit.mediaTime ?? now)
    if (unit.afterLoss) this.#needsKey = true
    const isWanted = unit.isKey || (!this.#isKeysOnly && (isStart(unit) || !this.#needsKey))
    if (!isWanted || (unit.isKey && !this.isEmpty)) this.#hasSkipped = true
    if (!isWanted) return
    if (unit.isKey) this.take()
    this.#needsKey = false
    this.#bytes += unit.data.byteLength
    const time = { at: now, cameraTime: unit.cameraTime?.getTime() ?? null }
    this.#units.push({ unit, time, afterSkip: this.#hasSkipped })
    this.#hasSkipped = false
    if (this.#bytes <= MOST_BYTES) return
    this.take()
    this.#needsKey = true
    this.#hasSkipped = true
  }

  /** Removes and returns all waiting units. */
  take(): readonly WaitingUnit[] {
    const units = this.#units
    this.#units = []
    this.#bytes = 0
    return units
  }

  get isEmpty(): boolean {
    return this.#units.length === 0
  }

  #noteKey(at: number): void {
    this.#keyTimes = [...this.#keyTimes, at].slice(-MEASURED)
  }
}
