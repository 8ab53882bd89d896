import type { Ended, Gap, Happening, Moment } from './event-state.ts'
import type { LookAnswer } from './question-value.ts'
import type { Tracked } from './watch-memory.ts'

export const EVENT_TYPES = [
  'watch.event.started',
  'watch.event.ended',
  'watch.event.suppressed',
  'watch.gap',
  'watch.offline',
  'watch.online',
] as const

/** What is told, before it has a number. */
export interface EventDraft {
  readonly type: (typeof EVENT_TYPES)[number]
  readonly data: object
  /** Whether it shows the frame. */
  readonly hasFrame: boolean
}

/** The frame that a look saw, as events describe it. */
export interface FrameAbout {
  readonly number: number
  readonly time: string
  /** By the clock of what took it, as the client says; null where it does not. */
  readonly camera_time: string | null
  readonly width: number
  readonly height: number
}

export function isoTime(time: number): string {
  return new Date(time).toISOString()
}

interface Seen {
  readonly probability: number | null
  readonly answer: LookAnswer | null
}

export function startedEvent({ question, happening, state }: Tracked, seen: Seen, box: object | null): EventDraft {
  const { startedAt, peak } = state as Happening
  const data = {
    ...{ happening, question: question.name, reason: null, ...seen },
    ...{ started_at: isoTime(startedAt), ended_at: null, peak_probability: peak, gaps: [], box },
  }
  return { type: 'watch.event.started', data, hasFrame: true }
}

/** @param tracked the question while its event still went on. */
export function endedEvent(
  { question, happening, state }: Tracked,
  seen: Seen,
  { endedAt, reason }: Pick<Ended, 'endedAt'> & { readonly reason: Ended['reason'] | 'changed' },
): EventDraft {
  const { startedAt, peak, gaps } = state as Happening
  const data = {
    ...{ happening, question: question.name, reason, ...seen },
    ...{ started_at: isoTime(startedAt), ended_at: isoTime(endedAt), peak_probability: peak },
    ...{ gaps: gaps.map(spanOf), box: null },
  }
  return { type: 'watch.event.ended', data, hasFrame: seen.answer !== null }
}

export function suppressedEvent({ question }: Tracked, seen: Seen): EventDraft {
  return { type: 'watch.event.suppressed', data: { question: question.name, ...seen }, hasFrame: false }
}

export function gapEvent(gap: Gap, reason: 'stopped' | 'waiting' | 'silent'): EventDraft {
  return { type: 'watch.gap', data: { reason, ...spanOf(gap) }, hasFrame: false }
}

/** @param last when the last frame came. */
export function offlineEvent(last: Moment): EventDraft {
  return { type: 'watch.offline', data: { reason: 'silent', from: isoTime(last.time) }, hasFrame: false }
}

export function onlineEvent(gap: Gap): EventDraft {
  return { type: 'watch.online', data: spanOf(gap), hasFrame: false }
}

function spanOf({ from, to }: Gap): { readonly from: string; readonly to: string } {
  return { from: isoTime(from), to: isoTime(to) }
}
