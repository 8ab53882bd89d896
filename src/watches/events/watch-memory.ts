import { hash } from 'node:crypto'
import type { WatchQuestion } from '../watch-settings.ts'
import { type EventState, IDLE, type Moment } from './event-state.ts'

/** Conditions of the watch itself that were reported and still hold. */
interface Condition {
  /** Since when no frames arrive, in Unix milliseconds; null while they do. */
  readonly offlineSince: number | null
  /** Looks fail. */
  readonly isFailed: boolean
  /** Looks take too long. */
  readonly isLagging: boolean
}

/** The state of a watch between two looks. */
export interface WatchMemory extends Condition {
  /** In the order of the questions. */
  readonly tracked: readonly Tracked[]
}

/** A question, and the state of its event. */
export interface Tracked {
  readonly question: WatchQuestion
  readonly state: EventState
  /** The id of the event in progress; null while there is none. */
  readonly happening: string | null
  /** When recent events started, by the clock that never jumps. */
  readonly starts: readonly number[]
  /** Whether an event did not start because there were too many. */
  readonly isSuppressed: boolean
}

/** The stored form, by the names of questions. */
interface Stored extends Partial<Condition> {
  /** Whether no frames arrive, in memories of earlier versions, which do not say since when. */
  readonly isOffline?: boolean
  readonly questions: Readonly<Record<string, StoredQuestion>>
}

interface StoredQuestion {
  /** Hash of the question: an event goes on only while its question stays the same. */
  readonly hash: string
  readonly state: EventState
  readonly happening: string | null
  /** Unix milliseconds before which no event starts; null for any time. */
  readonly blockedUntil: number | null
}

function newlyTracked(question: WatchQuestion): Tracked {
  return { question, state: IDLE, happening: null, starts: [], isSuppressed: false }
}

export function storedMemory({ tracked, ...condition }: WatchMemory, now: Moment): string {
  const questions = tracked.map(({ question, state, happening }): [string, StoredQuestion] => {
    const blocked = state.on ? Number.NEGATIVE_INFINITY : state.blockedUntil - now.at + now.time
    return [
      question.name,
      {
        hash: hashOf(question),
        state,
        happening,
        blockedUntil: Number.isFinite(blocked) ? blocked : null,
      },
    ]
  })
  return JSON.stringify({ ...condition, questions: Object.fromEntries(questions) } satisfies Stored)
}

/**
 * Reads what was stored, perhaps by a process with another clock. Events that were about to start are forgotten.
 * @param text null for a watch that has seen nothing.
 */
export function readMemory(text: string | null, questions: readonly WatchQuestion[], now: Moment): WatchMemory {
  const stored = text === null ? null : (JSON.parse(text) as Stored)
  const clock = now.at - now.time
  const moment = ({ time }: Moment): Moment => ({ at: time + clock, time })
  const tracked = questions.map((question) => {
    const known = stored !== null && Object.hasOwn(stored.questions, question.name) && stored.questions[question.name]
    if (!known || known.hash !== hashOf(question)) return newlyTracked(question)
    const { state, happening, blockedUntil } = known
    const kept: EventState = state.on
      ? { ...state, seen: moment(state.seen), falling: state.falling && moment(state.falling) }
      : { ...IDLE, ...(blockedUntil !== null && { blockedUntil: blockedUntil + clock }) }
    return { ...newlyTracked(question), state: kept, happening }
  })
  const { isOffline = false, isFailed = false, isLagging = false } = stored ?? {}
  const { offlineSince = isOffline ? now.time : null } = stored ?? {}
  return { offlineSince, isFailed, isLagging, tracked }
}

/** @returns the memory with the new questions, and the old ones whose events end because they were changed. */
export function withQuestions(
  { tracked, ...others }: WatchMemory,
  questions: readonly WatchQuestion[],
): { readonly memory: WatchMemory; readonly ended: readonly Tracked[] } {
  const known = new Map(tracked.map((one) => [hashOf(one.question), one]))
  const next = questions.map((question) => ({ ...(known.get(hashOf(question)) ?? newlyTracked(question)), question }))
  const kept = new Set(next.map(({ happening }) => happening))
  const ended = tracked.filter(({ happening }) => happening !== null && !kept.has(happening))
  return { memory: { ...others, tracked: next }, ended }
}

/** Hash of what its probability means, without the rule of its events: under new thresholds, an open event goes on. */
function hashOf({ event, ...question }: WatchQuestion): string {
  const { values, at_least } = event ?? {}
  return hash('sha256', JSON.stringify({ ...question, event: event && { values, at_least } }), 'base64')
}
