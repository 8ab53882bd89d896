import type { RecordedUnit } from './unit-ring.ts'

/** Ticks in a second. */
export const TICKS = 90_000
/** How far the camera's clock may drift from ours: this share of the clip, and at least this long. */
const DRIFT = 0.1
const LEAST_DRIFT_MS = 1_000
/** Duration of the last picture, if it cannot be taken from others. */
const USUAL_TICKS = TICKS / 25

/** When a picture is decoded, and when it is shown, in ticks from the first one on. */
export interface UnitTimes {
  readonly decoded: number
  readonly shown: number
}

/**
 * Times of units in the order of decoding. The camera's clock is steadier than the arrival times, but it may stand
 * still, or run at another speed.
 */
export function clipTimes(units: readonly RecordedUnit[]): readonly UnitTimes[] {
  const arrived = units.map(({ at }) => at)
  const told = units.flatMap(({ unit: { mediaTime } }) => mediaTime ?? [])
  const limit = Math.max(LEAST_DRIFT_MS, DRIFT * spanOf(arrived))
  const isTrue = told.length === units.length && Math.abs(spanOf(told) - spanOf(arrived)) <= limit
  const ticks = (isTrue ? told : arrived).map((ms) => Math.round((ms * TICKS) / 1000))
  // Pictures that refer to later ones are decoded after them, so the first picture is shown later by the longest such
  // delay.
  const ordered = ticks.toSorted((one, other) => one - other)
  const delay = ordered.reduce((most, tick, i) => Math.max(most, tick - ticks[i]!), 0)
  let last = -1
  return ticks.map((tick, i) => {
    last = Math.max(last + 1, ordered[i]! - ordered[0]!)
    return { decoded: last, shown: Math.max(last, tick - ordered[0]! + delay) }
  })
}

/** Approximate duration of a unit: until the next one is decoded. */
export function durationAt(times: readonly UnitTimes[], index: number): number {
  const at = Math.min(index, times.length - 2)
  return at < 0 ? USUAL_TICKS : times[at + 1]!.decoded - times[at]!.decoded
}

function spanOf(ms: readonly number[]): number {
  return ms.reduce((most, one) => Math.max(most, one), ms[0]!) - ms.reduce((least, one) => Math.min(least, one), ms[0]!)
}
