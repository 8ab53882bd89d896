/** A point in time, by two clocks. */
export interface Moment {
  /** Milliseconds by a clock that never jumps. Durations are measured with it. */
  readonly at: number
  /** Unix milliseconds, as clients see it. */
  readonly time: number
}

/** When an event starts and ends. */
export interface EventRule {
  readonly above: number
  /** Less than `above`. */
  readonly below: number
  readonly forMs: number
  readonly clearMs: number
  readonly cooldownMs: number
}

/** A time in which nothing was seen, in Unix milliseconds. */
export interface Gap {
  readonly from: number
  readonly to: number
}

/** The state of one question's event. */
export type EventState = Idle | Happening

export interface Idle {
  readonly on: false
  /** Since when the value has been high enough, and at how many ticks. */
  readonly rising: { readonly since: Moment; readonly ticks: number; readonly peak: number } | null
  /** No event starts before this time, by the clock that never jumps. */
  readonly blockedUntil: number
}

export interface Happening {
  readonly on: true
  /** When the value first rose. */
  readonly startedAt: number
  readonly peak: number
  /** When it was last seen. */
  readonly seen: Moment
  /** Since when the value has been low. */
  readonly falling: Moment | null
  readonly gaps: readonly Gap[]
  /** A gap that no look has followed yet. */
  readonly openGap: Gap | null
}

export type Change = 'started' | Ended

export interface Ended {
  readonly endedAt: number
  readonly reason: 'cleared' | 'gap'
}

export interface Step {
  readonly state: EventState
  readonly change: Change | null
}

/** After a longer gap, an event does not go on: another one starts. */
const LONGEST_GAP_MS = 3_600_000

export const IDLE: Idle = { on: false, rising: null, blockedUntil: Number.NEGATIVE_INFINITY }

/**
 * Computes the state after a tick.
 * @param value of the question, from 0 to 1; null for a look that was unsure, which changes nothing.
 */
export function tick(state: EventState, rule: EventRule, value: number | null, now: Moment): Step {
  if (value === null) return { state, change: null }
  return state.on ? whileOn(state, rule, value, now) : whileOff(state, rule, value, now)
}

function whileOff({ rising, blockedUntil }: Idle, rule: EventRule, value: number, now: Moment): Step {
  if (value < rule.above) return { state: { on: false, rising: null, blockedUntil }, change: null }
  const since = rising?.since ?? now
  const ticks = (rising?.ticks ?? 0) + 1
  const peak = Math.max(value, rising?.peak ?? 0)
  const hasLasted = now.at - since.at >= rule.forMs && ticks >= (rule.forMs === 0 ? 1 : 2)
  if (!hasLasted || now.at < blockedUntil) {
    return { state: { on: false, rising: { since, ticks, peak }, blockedUntil }, change: null }
  }
  const state = { on: true, startedAt: since.time, peak, seen: now, falling: null, gaps: [], openGap: null } as const
  return { state, change: 'started' }
}

function whileOn(state: Happening, rule: EventRule, value: number, now: Moment): Step {
  const peak = Math.max(state.peak, value)
  const { openGap } = state
  if (value >= rule.below) {
    const gaps = openGap === null ? state.gaps : [...state.gaps, openGap]
    return { state: { ...state, peak, seen: now, falling: null, gaps, openGap: null }, change: null }
  }
  if (openGap !== null) return ended(state, 'gap', now.at + rule.cooldownMs)
  const falling = state.falling ?? now
  if (now.at - falling.at < rule.clearMs) return { state: { ...state, peak, falling }, change: null }
  return ended({ ...state, falling }, 'cleared', now.at + rule.cooldownMs)
}

function ended({ startedAt, falling, seen }: Happening, reason: Ended['reason'], blockedUntil: number): Step {
  // A clock that was ahead at the start may have been set right.
  const change = { endedAt: Math.max(startedAt, (falling ?? seen).time), reason }
  return { state: { on: false, rising: null, blockedUntil }, change }
}

/** Computes the state after a gap. The first tick after the gap decides whether an event goes on. */
export function bridge(state: EventState, gap: Gap): Step {
  if (!state.on) return { state: { ...state, rising: null }, change: null }
  const openGap = { from: state.openGap?.from ?? gap.from, to: gap.to }
  if (openGap.to - openGap.from > LONGEST_GAP_MS) return ended(state, 'gap', Number.NEGATIVE_INFINITY)
  return { state: { ...state, openGap }, change: null }
}
