import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { AccessUnit } from './camera-session.ts'
import { clipTimes } from './clip-times.ts'
import { type RecordedUnit, UnitRing } from './unit-ring.ts'

const unit = (number: number, changes: Partial<AccessUnit> = {}): AccessUnit => ({
  ...{ codec: 'h264', data: Uint8Array.of(number), isKey: number % 10 === 0 },
  ...{ mediaTime: number * 100, cameraTime: null, afterLoss: false, ...changes },
})
/** What a recording gets, once it has ended. */
function recordedBy(ring: UnitRing, from: number, moment: number) {
  const seen: { units: readonly RecordedUnit[] | null } = { units: null }
  const onEnd = (units: readonly RecordedUnit[]) => {
    seen.units = units
  }
  const recording = { from, moment, onEnd }
  return { isBegun: ring.begin(recording), end: () => ring.end(recording), seen }
}
const numbers = (units: readonly RecordedUnit[] | null) => units?.map(({ at }) => at / 100)

describe('what a camera has sent', () => {
  test('is kept from a key frame on, for as long as a clip needs it', () => {
    const ring = new UnitRing()
    ring.add(unit(0), 0)
    expect(ring.bytes).toBe(0)
    ring.keepMs = 1_500
    for (let i = 5; i <= 40; i++) ring.add(unit(i), i * 100)
    const { seen, end } = recordedBy(ring, 3_300, 3_500)
    for (let i = 41; i <= 70; i++) ring.add(unit(i), i * 100)
    end()
    expect(numbers(seen.units)).toEqual(Array.from({ length: 41 }, (_, i) => 30 + i))
    const early = recordedBy(ring, 0, 7_000)
    early.end()
    expect(numbers(early.seen.units)![0]).toBe(30)
    ring.add(unit(80), 8_000)
    const late = recordedBy(ring, 0, 8_000)
    late.end()
    expect(numbers(late.seen.units)![0]).toBe(60)
    ring.keepMs = 0
    expect(ring.bytes).toBe(0)
  })

  test('has no clip of what came before its first key frame', () => {
    const ring = new UnitRing()
    ring.keepMs = 1_000
    const { seen, end } = recordedBy(ring, 0, 500)
    for (let i = 1; i <= 12; i++) ring.add(unit(i), i * 100)
    end()
    expect(seen.units).toEqual([])
  })

  test('is of one codec', () => {
    const ring = new UnitRing()
    ring.keepMs = 1_000
    ring.add(unit(0), 0)
    const { seen } = recordedBy(ring, 0, 0)
    ring.add(unit(10, { codec: 'h265' }), 1_000)
    expect(numbers(seen.units)).toEqual([0])
  })

  test('takes bounded memory: clips begin later, and end early if they cannot', () => {
    const ring = new UnitRing()
    ring.keepMs = 3_600_000
    const data = new Uint8Array(2 ** 20)
    for (let i = 0; i < 200; i++) ring.add(unit(i, { data }), i * 100)
    expect(ring.bytes).toBeLessThan(33 * 2 ** 20)
    const open = recordedBy(ring, 0, 19_500)
    for (let i = 200; i < 210; i++) ring.add(unit(i, { data }), i * 100)
    expect(open.seen.units).toBeNull()
    // Key frames far apart.
    for (let i = 211; i < 260; i++) ring.add(unit(i, { data, isKey: false }), i * 100)
    expect(numbers(open.seen.units)!.slice(0, 2)).toEqual([190, 191])
    expect(ring.bytes).toBeLessThan(33 * 2 ** 20)
  })

  test('takes bounded memory, of units without bytes too, and has bounded recordings', () => {
    const ring = new UnitRing()
    ring.keepMs = 3_600_000
    const data = new Uint8Array()
    for (let i = 0; i < 40_000; i++) ring.add(unit(i, { data }), i)
    const { seen, end } = recordedBy(ring, 0, 40_000)
    end()
    expect(seen.units!.length).toBeLessThan(20_000)
    const begun = Array.from({ length: 20 }, () => recordedBy(ring, 0, 40_000).isBegun)
    expect(begun.filter(Boolean)).toHaveLength(16)
  })
})

describe('times of a clip', () => {
  const recorded = (times: readonly (readonly [mediaTime: number | null, at: number])[]): RecordedUnit[] =>
    times.map(([mediaTime, at], i) => ({ unit: unit(i, { mediaTime }), at }))

  test('are those of the camera, unless its clock stands still or runs at another speed', () => {
    const shown = (units: RecordedUnit[]) => clipTimes(units).map(({ shown }) => shown)
    expect(
      shown(
        recorded([
          [7, 100],
          [47, 170],
          [87, 180],
        ]),
      ),
    ).toEqual([0, 3_600, 7_200])
    expect(
      shown(
        recorded([
          [7, 0],
          [7, 40],
          [7, 2_000],
        ]),
      ),
    ).toEqual([0, 3_600, 180_000])
    expect(
      shown(
        recorded([
          [null, 0],
          [null, 40],
        ]),
      ),
    ).toEqual([0, 3_600])
    expect(
      shown(
        recorded([
          [0, 0],
          [4_000, 2_000],
        ]),
      ),
    ).toEqual([0, 180_000])
  })

  test('let pictures refer to later ones', () => {
    expect(
      clipTimes(
        recorded([
          [0, 0],
          [120, 40],
          [40, 80],
          [80, 120],
        ]),
      ),
    ).toEqual([
      { decoded: 0, shown: 3_600 },
      { decoded: 3_600, shown: 14_400 },
      { decoded: 7_200, shown: 7_200 },
      { decoded: 10_800, shown: 10_800 },
    ])
  })

  test('are such that each picture is decoded after the one before, and not after it is shown', () => {
    const time = fc.integer({ min: -5_000, max: 100_000 })
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.option(time), time), { minLength: 1, maxLength: 50 }), (times) => {
        const all = clipTimes(recorded(times))
        for (const [i, { decoded, shown }] of all.entries()) {
          expect(decoded).toBeGreaterThan(all[i - 1]?.decoded ?? -1)
          expect(shown).toBeGreaterThanOrEqual(decoded)
        }
      }),
    )
  })
})
