import fc from 'fast-check'
import { expect, test } from 'vitest'
import { bridge, type Change, type EventRule, type EventState, IDLE, type Moment, tick } from './event-state.ts'

interface Seen extends Moment {
  readonly value: number | null
  /** Whether nothing was seen since the tick before. */
  readonly afterGap: boolean
}

/** Says what happens at each tick by looking back over all of them. */
function oracle(seen: readonly Seen[], rule: EventRule): (Change | null)[] {
  let start: number | null = null
  let blockedUntil = Number.NEGATIVE_INFINITY
  /** The first tick that may count. */
  let first = 0
  return seen.map((now, index) => {
    if (now.value === null) return null
    const sure = seen.slice(0, index + 1).filter(({ value }, at) => at >= first && value !== null)
    const runOf = (holds: (value: number) => boolean) =>
      sure.slice(sure.findLastIndex(({ value }) => !holds(value!)) + 1)
    const gapSince = (from: number) => seen.slice(from + 1, index + 1).some(({ afterGap }) => afterGap)
    if (start === null) {
      const run = runOf((value) => value >= rule.above).filter((tick) => !gapSince(seen.indexOf(tick)))
      const isLong = run.length > 0 && now.at - run[0]!.at >= rule.forMs && run.length >= (rule.forMs === 0 ? 1 : 2)
      if (!isLong || now.at < blockedUntil) return null
      start = index
      return 'started'
    }
    const low = runOf((value) => value < rule.below).filter((tick) => seen.indexOf(tick) > start!)
    if (low.length === 0) return null
    const lastOn = seen.indexOf(sure.at(-low.length - 1)!)
    const previous = low.length > 1 ? seen.indexOf(low.at(-2)!) : lastOn
    const reason = gapSince(previous) ? 'gap' : now.at - low[0]!.at >= rule.clearMs ? 'cleared' : null
    if (reason === null) return null
    start = null
    first = index + 1
    blockedUntil = now.at + rule.cooldownMs
    const endedAt = reason === 'gap' && low.length === 1 ? seen[lastOn]!.time : low[0]!.time
    return { endedAt, reason }
  })
}

const ms = fc.integer({ min: 0, max: 6 }).map((seconds) => seconds * 1000)
const rules = fc.record({
  above: fc.constantFrom(0.6, 0.8),
  below: fc.constantFrom(0.3, 0.5),
  forMs: ms,
  clearMs: ms,
  cooldownMs: ms,
})
const ticks = fc.array(
  fc.record({
    value: fc.oneof(
      { weight: 1, arbitrary: fc.constant(null) },
      { weight: 8, arbitrary: fc.constantFrom(0, 0.35, 0.55, 0.7, 1) },
    ),
    step: fc.integer({ min: 1, max: 3 }).map((seconds) => seconds * 1000),
    afterGap: fc.integer({ min: 0, max: 9 }).map((one) => one === 0),
  }),
  { minLength: 20, maxLength: 60 },
)

test('says at each tick what looking back over all ticks says', () => {
  const changes = { started: 0, cleared: 0, gap: 0 }
  fc.assert(
    fc.property(ticks, rules, (steps, rule) => {
      let at = 0
      const seen = steps.map(({ value, step, afterGap }): Seen => {
        at += step
        return { at, time: at + 1e12, value, afterGap }
      })
      let state: EventState = IDLE
      const told = seen.map((now, index) => {
        if (now.afterGap && index > 0) state = bridge(state, { from: seen[index - 1]!.time, to: now.time }).state
        const { state: next, change } = tick(state, rule, now.value, now)
        state = next
        if (change !== null) changes[change === 'started' ? 'started' : change.reason]++
        return change
      })
      expect(told).toEqual(oracle(seen, rule))
    }),
    { numRuns: 1_000 },
  )
  expect(Math.min(...Object.values(changes))).toBeGreaterThan(20)
})

test('an event goes on over a gap, which it notes, and ends where the gap is long', () => {
  const rule: EventRule = { above: 0.7, below: 0.4, forMs: 0, clearMs: 0, cooldownMs: 0 }
  const { state } = tick(IDLE, rule, 0.9, { at: 0, time: 0 })
  const gap = { from: 0, to: 60_000 }
  const after = tick(bridge(state, gap).state, rule, 0.5, { at: 60_000, time: 60_000 })
  expect(after).toMatchObject({ change: null, state: { on: true, gaps: [gap], openGap: null } })
  expect(bridge(state, { from: 0, to: 3_600_001 }).change).toEqual({ endedAt: 0, reason: 'gap' })
})
