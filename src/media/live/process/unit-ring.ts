import { type AccessUnit, isStart } from './camera-session.ts'

/** Maximum size of the units of one camera. */
const MOST_BYTES = 32 * 2 ** 20
/** Overhead of a unit, generously. */
const UNIT_BYTES = 2048
/** The most concurrent recordings of one camera. */
const MOST_RECORDINGS = 16

/** A unit, and when it arrived, by the clock of `performance`. */
export interface RecordedUnit {
  readonly unit: AccessUnit
  readonly at: number
}

/** The span of a clip, by the clock of `performance`. */
export interface Recording {
  readonly from: number
  /** The moment that must be in it. */
  readonly moment: number
  /** @param units from a key frame on; empty if the ring has no key frame before the moment. */
  onEnd(units: readonly RecordedUnit[]): void
}

/**
 * The latest units of one camera as it has sent them, from a key frame on. It keeps those of the last `keepMs` and
 * those that recordings need, in bounded memory: when that is full, recordings begin later, or, if they cannot, end
 * early.
 */
export class UnitRing {
  readonly #recordings = new Set<Recording>()
  #units: RecordedUnit[] = []
  #bytes = 0
  #keepMs = 0

  /** @param ms 0 to keep only what recordings need. */
  set keepMs(ms: number) {
    this.#keepMs = ms
    if (this.#isIdle) this.#clear()
  }

  /** Bytes that it holds. */
  get bytes(): number {
    return this.#bytes
  }

  add(unit: AccessUnit, at: number): void {
    if (unit.codec === 'jpeg' || this.#isIdle) return
    // A clip has one codec.
    if (this.#units[0] !== undefined && this.#units[0].unit.codec !== unit.codec) this.close()
    if (this.#units.length === 0 && !isStart(unit)) return
    this.#units.push({ unit, at })
    this.#bytes += sizeOf(unit)
    if (isStart(unit)) this.#forget(at)
    while (this.#bytes > MOST_BYTES) this.#shrink()
  }

  /** @returns false if there are too many. */
  begin(recording: Recording): boolean {
    if (this.#recordings.size >= MOST_RECORDINGS) return false
    this.#recordings.add(recording)
    return true
  }

  /** Ends a recording with the units that are there. */
  end(recording: Recording): void {
    if (!this.#recordings.delete(recording)) return
    const { from, moment } = recording
    const first = this.#units.findLastIndex(({ unit, at }, i) => isStart(unit) && (at <= from || i === 0))
    const units = this.#units.slice(Math.max(0, first))
    if (this.#isIdle) this.#clear()
    recording.onEnd(units.length > 0 && units[0]!.at <= moment ? units : [])
  }

  /** Whether nothing needs to be kept. */
  get #isIdle(): boolean {
    return this.#keepMs === 0 && this.#recordings.size === 0
  }

  /** Ends all recordings. */
  close(): void {
    for (const recording of this.#recordings) this.end(recording)
    this.#clear()
  }

  /** Drops groups of pictures that are no longer needed. */
  #forget(now: number): void {
    const needed = Math.min(now - this.#keepMs, ...[...this.#recordings].map(({ from }) => from))
    for (let next = this.#nextKey; next !== -1 && this.#units[next]!.at <= needed; next = this.#nextKey)
      this.#drop(next)
  }

  /** Where the second group of pictures begins; -1 where there is none. */
  get #nextKey(): number {
    return this.#units.findIndex(({ unit }, i) => i > 0 && isStart(unit))
  }

  /** Drops the first group of pictures. */
  #shrink(): void {
    const next = this.#nextKey
    const begins = next === -1 ? Number.POSITIVE_INFINITY : this.#units[next]!.at
    for (const recording of this.#recordings) if (recording.moment < begins) this.end(recording)
    this.#drop(next === -1 ? this.#units.length : next)
  }

  #drop(count: number): void {
    for (const { unit } of this.#units.splice(0, count)) this.#bytes -= sizeOf(unit)
  }

  #clear(): void {
    this.#units = []
    this.#bytes = 0
  }
}

/** Bytes that a unit takes. */
export function sizeOf({ data }: AccessUnit): number {
  return data.byteLength + UNIT_BYTES
}
