import type { ClipFault } from '../../media/live/protocol.ts'
import type { LookAnswer } from '../question-value.ts'
import type { Ended, Gap, Happening, Moment } from './event-state.ts'
import type { Lag } from './lag-meter.ts'
import type { Tracked } from './watch-memory.ts'

export const EVENT_TYPES = [
  'watch.event.started',
  'watch.event.ended',
  'watch.event.clip',
  'watch.event.suppressed',
  'watch.failed',
  'watch.gap',
  'watch.lagging',
  'watch.offline',
  'watch.online',
] as const
export type EventType = (typeof EVENT_TYPES)[number]

/** An event, before it has a number. */
export interface EventDraft {
  readonly type: EventType
  readonly data: object
  /** Whether it describes the frame. */
  readonly hasFrame: boolean
  /** Clip of an event that has started: null if there is none. */
  readonly clip?: ClipReport | null
}

/** A clip, as events describe it. */
export interface ClipReport {
  readonly status: 'pending' | 'available' | 'unavailable'
  readonly file_id: string | null
  /** Why there is none. */
  readonly reason: ClipError | null
  /** When its first and its last picture arrived. */
  readonly from: string | null
  readonly to: string | null
}

export type ClipError = ClipFault | FileError

const PENDING_CLIP: ClipReport = { status: 'pending', file_id: null, reason: null, from: null, to: null }

/** The frame that a look saw, as events describe it. */
export interface FrameAbout {
  readonly number: number
  readonly time: string
  /** When it was taken, by the clock of the camera; null if neither the client nor the camera says so. */
  readonly camera_time: string | null
  readonly width: number
  readonly height: number
}

/**
 * Why a frame that should be stored is not: the organisation's quota is used up, or the server's storage has failed.
 */
export const FILE_ERRORS = ['quota', 'storage'] as const
export type FileError = (typeof FILE_ERRORS)[number]

export function isoTime(time: number): string {
  return new Date(time).toISOString()
}

interface Seen {
  readonly probability: number | null
  readonly answer: LookAnswer | null
}

/** For a change that no look has found. */
export const NOTHING_SEEN: Seen = { probability: null, answer: null }

export function startedEvent(
  { question, happening, state }: Tracked,
  seen: Seen,
  { box, hasClip }: { readonly box: object | null; readonly hasClip: boolean },
): EventDraft {
  const { startedAt, peak } = state as Happening
  const data = {
    ...{ happening, question: question.name, reason: null, ...seen },
    ...{ started_at: isoTime(startedAt), ended_at: null, peak_probability: peak, gaps: [], box },
  }
  return { type: 'watch.event.started', data, hasFrame: true, clip: hasClip ? PENDING_CLIP : null }
}

/** @param tracked the question before its event ended. */
export function endedEvent(
  { question, happening, state }: Tracked,
  seen: Seen,
  { endedAt, reason }: Pick<Ended, 'endedAt'> & { readonly reason: Ended['reason'] | 'changed' | 'deleted' },
): EventDraft {
  const { startedAt, peak, gaps } = state as Happening
  const data = {
    ...{ happening, question: question.name, reason, ...seen },
    ...{ started_at: isoTime(startedAt), ended_at: isoTime(endedAt), peak_probability: peak },
    ...{ gaps: gaps.map(spanOf), box: null },
  }
  return { type: 'watch.event.ended', data, hasFrame: seen.answer !== null }
}

/** @param clip the clip of an event, or why there is none. */
export function clipEvent(
  { happening, question }: { readonly happening: string; readonly question: string },
  clip: ClipReport,
): EventDraft {
  return { type: 'watch.event.clip', data: { happening, question }, hasFrame: false, clip }
}

export function suppressedEvent({ question }: Tracked, seen: Seen): EventDraft {
  return { type: 'watch.event.suppressed', data: { question: question.name, ...seen }, hasFrame: false }
}

export function gapEvent(gap: Gap, reason: 'stopped' | 'waiting' | 'silent'): EventDraft {
  return { type: 'watch.gap', data: { reason, ...spanOf(gap) }, hasFrame: false }
}

/** @param last when the last frame arrived. */
export function offlineEvent(last: Moment, reason: string): EventDraft {
  return { type: 'watch.offline', data: { reason, from: isoTime(last.time) }, hasFrame: false }
}

export function onlineEvent(gap: Gap): EventDraft {
  return { type: 'watch.online', data: spanOf(gap), hasFrame: false }
}

/** Looks that fail. */
export interface Failure {
  /** HTTP status of the last error; undefined for an internal error. */
  readonly status: number | undefined
  readonly message: string
  /** When the first one failed. */
  readonly since: Moment
}

/** By status: the key is no longer valid, the model is not there, or the budget is spent. */
const FAILURE_REASONS: ReadonlyMap<number | undefined, string> = new Map([
  [403, 'key'],
  [404, 'model'],
  [429, 'budget'],
])

export function failedEvent({ status, message, since }: Failure): EventDraft {
  const reason = FAILURE_REASONS.get(status) ?? 'error'
  return { type: 'watch.failed', data: { reason, message, from: isoTime(since.time) }, hasFrame: false }
}

export function laggingEvent({ from, lookedFps }: Lag): EventDraft {
  return { type: 'watch.lagging', data: { from: isoTime(from), looked_fps: lookedFps }, hasFrame: false }
}

function spanOf({ from, to }: Gap): { readonly from: string; readonly to: string } {
  return { from: isoTime(from), to: isoTime(to) }
}
