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

/** A watch, as a client registered it. It is stored in this form, so the names are those of the API. */
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
  /** The part of each frame that is looked at; all of it by default. */
  readonly region?: Edges | null
  readonly questions: readonly WatchQuestion[]
  readonly record: RecordSettings
  readonly keep_days: number
  readonly metadata: Readonly<Record<string, string>> | null
}

/** What is recorded when an event starts. */
interface RecordSettings {
  readonly frame: boolean
  /** How long a clip shows before the event starts, and after the start is seen. Without either, there is no clip. */
  readonly before_seconds?: number
  readonly after_seconds?: number
}

/** A question of the kind that decisions take, with the rule of its event. */
export interface WatchQuestion {
  readonly type: 'predicate' | 'choice' | 'score' | 'x_count'
  readonly name: string
  readonly instructions: string
  /** Null for a question without events, which is only answered. */
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

/** What is asked about the first frame of an event. */
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

/** How long a clip shows before and after the start of an event, in milliseconds; null for no clip. */
export function clipOf({ record }: Pick<WatchSettings, 'record'>): { beforeMs: number; afterMs: number } | null {
  const { before_seconds: before = 0, after_seconds: after = 0 } = record
  return before + after > 0 ? { beforeMs: before * 1000, afterMs: after * 1000 } : null
}

/** The longest `for_seconds` of an event whose clip still shows its beginning. */
const LONGEST_RISE_MS = 30_000
/** How long a look may take, generously. */
const LOOK_MS = 5_000

/** How long the video of a camera is kept for clips, in milliseconds. */
export function keepMsOf(settings: Pick<WatchSettings, 'record' | 'questions'>): number {
  const clip = clipOf(settings)
  if (clip === null) return 0
  const rises = settings.questions.map(({ event }) => (event?.for_seconds ?? 0) * 1000)
  return clip.beforeMs + Math.min(LONGEST_RISE_MS, Math.max(...rises)) + LOOK_MS
}

/**
 * The time without frames that counts as silence, in milliseconds: three intervals between looks, and at least
 * `leastMs`.
 */
export function silenceOf({ fps }: WatchSettings, leastMs: number): number {
  return Math.max(leastMs, 3_000 / fps)
}
