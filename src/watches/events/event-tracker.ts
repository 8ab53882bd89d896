import { SortedIds } from '../../files/file-id.ts'
import { serviceUnavailable } from '../../lib/errors/errors.ts'
import { type LookAnswer, probabilityIn } from '../question-value.ts'
import type { HeldWatch, Progress, Told, ToldClip, WatchDesk } from '../watch-desk.ts'
import type { WatchMeter } from '../watch-meter.ts'
import { ruleOf, silenceOf } from '../watch-settings.ts'
import { bridge, type Gap, type Happening, IDLE, type Moment, tick } from './event-state.ts'
import type { Lag } from './lag-meter.ts'
import {
  type ClipError,
  type EventDraft,
  endedEvent,
  type Failure,
  type FrameAbout,
  failedEvent,
  gapEvent,
  laggingEvent,
  NOTHING_SEEN,
  offlineEvent,
  onlineEvent,
  startedEvent,
  suppressedEvent,
} from './watch-events.ts'
import { readMemory, storedMemory, type Tracked, type WatchMemory, withQuestions } from './watch-memory.ts'

/** What a look found, or what still holds for a frame in which nothing has moved. */
interface Finding {
  readonly moment: Moment
  readonly about: FrameAbout
  /** In the order of the questions. */
  readonly answers: readonly LookAnswer[]
  /** Asks further questions about the frame. */
  evidence(questions: readonly object[]): Promise<readonly (LookAnswer | null)[]>
  /** The frame to store with events that start. */
  picture(): Promise<Told['picture']>
  /** The reason for a gap before this frame, if there is one. */
  readonly after: 'silent' | 'waiting'
  /** Whether this is the next frame after the last one that was seen, from a camera that never stopped delivering. */
  readonly isNext: boolean
  /** The lag of the latest looks; null while they keep up. */
  readonly lag: Lag | null
  /** Whether a clip is recorded of events that start. */
  readonly hasClip: boolean
}

/** Events that have started. */
export interface Started {
  /** Their numbers. */
  readonly numbers: readonly number[]
  /** When the first of them began, in Unix milliseconds. */
  readonly since: number
}

export interface EventTrackerOptions {
  readonly desk: WatchDesk
  /** The shortest time without frames that counts as silence. */
  readonly silenceMs: number
  readonly meter: WatchMeter | null
  readonly onTold: (id: string) => void
}

/** Further starts of one question's events within `STARTS_MS` are suppressed. */
const MOST_STARTS = 60
const STARTS_MS = 3_600_000

/**
 * Tracks the events of one watch, and reports their changes. Its state is what has been stored: after a failure that
 * leaves open whether a change was stored, it reads the database.
 */
export class EventTracker {
  readonly #options: EventTrackerOptions
  readonly #ids = new SortedIds('wev_')
  #memory: WatchMemory
  #seq: number
  #lastTick: Moment | null
  /** Whether the watch was stopped since the last tick. */
  #wasStopped: boolean
  /** Whether the database may differ from the state here. */
  #isUnsure = false
  suppressed = 0

  constructor(watch: HeldWatch, now: Moment, options: EventTrackerOptions) {
    this.#options = options
    const clock = clockOf(watch.seenAt, now)
    this.#memory = readMemory(watch.memory, watch.settings.questions, clock)
    this.#seq = watch.seq
    this.#lastTick = momentOf(watch.seenAt, clock)
    this.#wasStopped = watch.seenAt !== null
  }

  get isOffline(): boolean {
    return this.#memory.offlineSince !== null
  }

  progress(now: Moment): Progress {
    // The wall clock may have been set back since.
    const seenAt = this.#lastTick && Math.min(this.#lastTick.time, now.time)
    return { seq: this.#seq, memory: storedMemory(this.#memory, now), seenAt }
  }

  /** @returns the events that have started; null for none. */
  async settle(watch: HeldWatch, finding: Finding): Promise<Started | null> {
    await this.#makeSure(watch, finding.moment)
    const { moment, answers } = finding
    const gap = this.#gapBefore(watch, finding)
    const events: EventDraft[] = []
    const { offlineSince } = this.#memory
    if (offlineSince !== null) {
      // Memories of earlier versions do not say since when.
      const from = Math.min(offlineSince, this.#lastTick?.time ?? offlineSince, moment.time)
      events.push(onlineEvent({ from, to: moment.time }))
    }
    if (gap !== null && (this.#wasStopped || !this.isOffline)) {
      events.push(gapEvent(gap, this.#wasStopped ? 'stopped' : finding.after))
    }
    const steps = this.#memory.tracked.map((tracked, i) => this.#stepOf(tracked, answers[i]!, gap, moment))
    const boxes = await this.#boxesFor(steps, finding)
    for (const { before, next, seen, ended } of steps) {
      for (const one of ended) events.push(endedEvent(before, one.isBefore ? NOTHING_SEEN : seen, one))
      if (hasStarted(next, before)) {
        events.push(startedEvent(next, seen, { box: boxes.get(next) ?? null, hasClip: finding.hasClip }))
      }
      if (next.isSuppressed && !before.isSuppressed) events.push(suppressedEvent(next, seen))
    }
    if (finding.lag !== null && !this.#memory.isLagging) events.push(laggingEvent(finding.lag))
    const condition = { offlineSince: null, isFailed: false, isLagging: finding.lag !== null }
    const memory = { ...condition, tracked: steps.map(({ next }) => next) }
    if (events.length > 0) await this.#tell(watch, events, memory, finding)
    this.suppressed += steps.filter(({ next, before }) => next.isSuppressed && !before.isSuppressed).length
    this.#memory = memory
    this.#lastTick = moment
    this.#wasStopped = false
    const begun = steps.filter(({ next, before }) => hasStarted(next, before))
    if (begun.length === 0) return null
    const first = this.#seq - events.length + 1
    const numbers = events.flatMap(({ type }, i) => (type === 'watch.event.started' ? [first + i] : []))
    return { numbers, since: Math.min(...begun.map(({ next: { state } }) => (state as Happening).startedAt)) }
  }

  /** Null if frames have arrived as usual. */
  #gapBefore({ settings }: HeldWatch, { moment: now, isNext }: Finding): Gap | null {
    const last = this.#lastTick
    if (last === null) return null
    const isLong = !isNext && now.at - last.at > silenceOf(settings, this.#options.silenceMs)
    // The wall clock may have been set back since.
    return isLong || this.#wasStopped ? { from: Math.min(last.time, now.time), to: now.time } : null
  }

  #stepOf(before: Tracked, answer: LookAnswer, gap: Gap | null, now: Moment) {
    const { question } = before
    const probability = probabilityIn(question, answer)
    const seen = { probability, answer }
    if (question.event === null) return { before, next: before, seen, ended: [] }
    const bridged = gap === null ? null : bridge(before.state, gap)
    const rule = ruleOf(question.event)
    const { state, change } = tick(bridged?.state ?? before.state, rule, probability, now)
    const overGap = bridged?.change ?? null
    const ended = [
      ...(overGap === null || overGap === 'started' ? [] : [{ ...overGap, isBefore: true }]),
      ...(change === null || change === 'started' ? [] : [{ ...change, isBefore: false }]),
    ]
    const starts = before.starts.filter((at) => now.at - at < STARTS_MS)
    const next = { question, state, happening: state.on ? before.happening : null, starts, isSuppressed: false }
    const isFull = starts.length >= MOST_STARTS
    if (change !== 'started') {
      return { before, next: { ...next, isSuppressed: before.isSuppressed && isFull }, seen, ended }
    }
    if (isFull) {
      const blocked = { ...IDLE, blockedUntil: starts[0]! + STARTS_MS }
      return { before, next: { ...next, state: blocked, isSuppressed: true }, seen, ended }
    }
    return { before, next: { ...next, happening: this.#ids.next().id, starts: [...starts, now.at] }, seen, ended }
  }

  /** The boxes of events that have started, for questions that ask for one. */
  async #boxesFor(
    steps: readonly { readonly before: Tracked; readonly next: Tracked }[],
    { evidence }: Finding,
  ): Promise<ReadonlyMap<Tracked, object | null>> {
    const wanted = steps.flatMap(({ before, next }) =>
      hasStarted(next, before) && next.question.evidence !== null ? [next] : [],
    )
    if (wanted.length === 0) return new Map()
    const found = await evidence(wanted.map(({ question }) => question.evidence!))
    return new Map(wanted.map((tracked, i) => [tracked, found[i]?.box ?? null]))
  }

  /** Reports that no frames arrive, and why. @param last when the last one arrived. */
  async tellSilence(watch: HeldWatch, last: Moment, reason: string): Promise<void> {
    await this.#makeSure(watch, last)
    const since = this.#lastTick ?? last
    const memory = { ...this.#memory, offlineSince: since.time }
    await this.#tell(watch, [offlineEvent(since, reason)], memory, null)
    this.#memory = memory
  }

  /** Reports that looks fail: once, until a look succeeds. */
  async tellFailure(watch: HeldWatch, failure: Failure): Promise<void> {
    if (this.#memory.isFailed) return
    await this.#makeSure(watch, failure.since)
    const memory = { ...this.#memory, isFailed: true }
    await this.#tell(watch, [failedEvent(failure)], memory, null)
    this.#memory = memory
  }

  /** Reports the clip of started events, or why there is none. @param starts numbers of the events. */
  async tellClip(watch: HeldWatch, starts: readonly number[], clip: ToldClip | ClipError, now: Moment): Promise<void> {
    await this.#makeSure(watch, now)
    await this.#store(watch, () => this.#options.desk.tellClip(watch, starts, clip))
    for (const _ of starts) this.#options.meter?.eventTold('watch.event.clip')
  }

  /** Applies new settings. Events of questions that have changed end. */
  async change(watch: HeldWatch, now: Moment): Promise<void> {
    await this.#makeSure(watch, now)
    const { memory, ended } = withQuestions(this.#memory, watch.settings.questions)
    const events = ended.map((one) => endedEvent(one, NOTHING_SEEN, { endedAt: now.time, reason: 'changed' }))
    if (events.length > 0) await this.#tell(watch, events, memory, null)
    this.#memory = memory
  }

  async #tell(
    watch: HeldWatch,
    events: readonly EventDraft[],
    memory: WatchMemory,
    finding: Finding | null,
  ): Promise<void> {
    const now = finding?.moment ?? this.#lastTick
    const hasStarted = events.some(({ type }) => type === 'watch.event.started')
    const picture = hasStarted && finding ? await finding.picture() : null
    const told = {
      ...{ events, picture, frame: finding?.about ?? null },
      memory: storedMemory(memory, now ?? { at: performance.now(), time: Date.now() }),
      seenAt: now?.time ?? null,
    }
    await this.#store(watch, () => this.#options.desk.tell(watch, told))
    for (const { type } of events) this.#options.meter?.eventTold(type)
  }

  /** @param tell returns the number of the last event; null if the lease is lost. */
  async #store(watch: HeldWatch, tell: () => Promise<number | null>): Promise<void> {
    try {
      const seq = await tell()
      if (seq === null) throw serviceUnavailable('Another server runs the watch', 5)
      this.#seq = seq
    } catch (error) {
      this.#isUnsure = true
      throw error
    }
    this.#options.onTold(watch.id)
  }

  /** Reads the stored state if it may differ from the state here. @throws ApiError 503 */
  async #makeSure(watch: HeldWatch, now: Moment): Promise<void> {
    if (!this.#isUnsure) return
    const stored = await this.#options.desk.take(watch.id)
    if (stored === null) throw serviceUnavailable('Another server runs the watch', 5)
    if (stored.seq !== this.#seq) {
      const clock = clockOf(stored.seenAt, now)
      this.#memory = readMemory(stored.memory, watch.settings.questions, clock)
      this.#seq = stored.seq
      this.#lastTick = momentOf(stored.seenAt, clock)
      this.#wasStopped = false
      this.#options.onTold(watch.id)
    }
    this.#isUnsure = false
  }
}

function hasStarted(next: Tracked, before: Tracked): boolean {
  return next.happening !== null && next.happening !== before.happening
}

/** The clock to read stored times by. If the wall clock was set back since, it counts as having stood still. */
function clockOf(seenAt: Date | null, { at, time }: Moment): Moment {
  return { at, time: Math.max(time, seenAt?.getTime() ?? time) }
}

/** A time that was stored, by the clock of this process. */
function momentOf(seenAt: Date | null, now: Moment): Moment | null {
  const time = seenAt?.getTime()
  return time === undefined ? null : { at: now.at - now.time + time, time }
}
