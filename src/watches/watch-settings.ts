import type { CameraType, Decode } from '../media/live/camera-source.ts'
import type { EventRule } from './events/event-state.ts'
import type { Edges } from './watch-region.ts'

/** Where the frames of a watch come from. */
type WatchSource = { readonly type: 'push' } | CameraRecord

/** A camera of the configuration, or one that the client has described. */
export type CameraRecord =
  | { readonly type: 'camera'; readonly camera: string }
  /** `credentials` are encrypted; null for a camera without a login. */
  | {
      readonly type: CameraType
      readonly url: string
      readonly credentials: string | null
      readonly certificate?: string | undefined
    }

/** A watch as a client has registered it. It is stored as it is, so the names are those of the API. */
export interface WatchSettings {
  readonly model: string
  readonly name: string | null
  readonly source: WatchSource
  /** Looks in a second, at most. */
  readonly fps: number
  /** Which frames of a camera are decoded. */
  readonly decode?: Decode
  /** Null to look at every frame. */
  readonly motion: { readonly share: number; readonly at_least_every_seconds: number } | null
  /** The part of each frame that is looked at; all of it where there is none. */
  readonly region?: Edges | null
  readonly questions: readonly WatchQuestion[]
  readonly record: RecordSettings
  readonly keep_days: number
  readonly metadata: Readonly<Record<string, string>> | null
}

/** What is kept of the start of an event. */
interface RecordSettings {
  readonly frame: boolean
  /** When a clip begins, before the event starts, and when it ends, after that is seen. Neither: no clip. */
  readonly before_seconds?: number
  readonly after_seconds?: number
}

/** A question of the kind that decisions take, with the rule of its event. */
export interface WatchQuestion {
  readonly type: 'predicate' | 'choice' | 'score' | 'x_count'
  readonly name: string
  readonly instructions: string
  /** Null for a question that is only answered. */
  readonly event: EventSettings | null
  readonly evidence: Evidence | null
  readonly choices?: readonly { readonly value: string | boolean }[]
  readonly levels?: readonly object[]
  readonly max?: number | null | undefined
}

export interface EventSettings {
  readonly above: number
  readonly below: number
  readonly for_seconds: number
  readonly clear_seconds: number
  readonly cooldown_seconds: number
  /** Values of a choice that count as on. */
  readonly values?: readonly (string | boolean)[] | undefined
  /** The least count or score that counts as on. */
  readonly at_least?: number | undefined
}

/** What is asked of the first frame of an event. */
interface Evidence {
  readonly type: 'x_box'
  readonly instructions: string
}

/** The part of a question that decisions take. */
export function askedOf({ event, evidence, ...asked }: WatchQuestion): object {
  return asked
}

export function ruleOf(event: EventSettings): EventRule {
  return {
    above: event.above,
    below: event.below,
    forMs: event.for_seconds * 1000,
    clearMs: event.clear_seconds * 1000,
    cooldownMs: event.cooldown_seconds * 1000,
  }
}

/** How a clip begins and ends, in milliseconds; null for none. */
export function clipOf({ record }: Pick<WatchSettings, 'record'>): { beforeMs: number; afterMs: number } | null {
  const { before_seconds: before = 0, after_seconds: after = 0 } = record
  return before + after > 0 ? { beforeMs: before * 1000, afterMs: after * 1000 } : null
}

/** How long an event may go on before its start is told, and a clip still shows it. */
const LONGEST_RISE_MS = 30_000
/** How long a look takes, generously. */
const LOOK_MS = 5_000

/** For how long what a camera sends is kept for clips, in milliseconds. */
export function keepMsOf(settings: Pick<WatchSettings, 'record' | 'questions'>): number {
  const clip = clipOf(settings)
  if (clip === null) return 0
  const rises = settings.questions.map(({ event }) => (event?.for_seconds ?? 0) * 1000)
  return clip.beforeMs + Math.min(LONGEST_RISE_MS, Math.max(...rises)) + LOOK_MS
}

/** How long no frame may come, in milliseconds: three times the usual distance, and at least this. */
export function silenceOf({ fps }: WatchSettings, leastMs: number): number {
  return Math.max(leastMs, 3_000 / fps)
}
