import type { KeyOwners } from '../accounts/authenticator.ts'
import type { Files } from '../files/files.ts'
import { ApiError, serviceUnavailable } from '../lib/errors/errors.ts'
import type { MediaLoader } from '../media/media-loader.ts'
import { CameraFeed, type FollowCamera } from './camera-feed.ts'
import { ClipRecorder } from './clip-recorder.ts'
import type { Moment } from './events/event-state.ts'
import { EventTracker } from './events/event-tracker.ts'
import { LagMeter } from './events/lag-meter.ts'
import { type ClipError, type FileError, type FrameAbout, isoTime } from './events/watch-events.ts'
import { FRAME, FrameView } from './frame-view.ts'
import { KeyOwner } from './key-owner.ts'
import { LateLook, type Look, type LookReport, type Picture, type Pushed, type WatchFrame } from './look.ts'
import { type DropReason, LookCounts, type WatchReport } from './look-counts.ts'
import { motionBetween } from './motion.ts'
import type { LookAnswer } from './question-value.ts'
import type { HeldProgress, HeldWatch, ToldClip, WatchDesk } from './watch-desk.ts'
import type { WatchMeter } from './watch-meter.ts'
import { askedOf, clipOf, silenceOf } from './watch-settings.ts'

export interface LiveWatchOptions {
  readonly desk: WatchDesk
  readonly keys: KeyOwners
  readonly files: Pick<Files, 'checkStorage'>
  readonly media: Pick<MediaLoader, 'open'>
  readonly look: Look
  readonly meter: WatchMeter | null
  readonly cameras: { readonly follow: FollowCamera }
  /** The shortest time without frames that counts as silence. */
  readonly silenceMs: number
  /** The window over which missed looks are counted, for `watch.lagging`. */
  readonly lagMs: number
  /** Called when events have been stored. */
  readonly onTold: (id: string) => void
  /** Called with every look, and with every frame that needed none because nothing had moved in it. */
  readonly onLook: (id: string, look: LookReport) => void
}

/** A frame may arrive early by this share of the interval between looks. */
const TOLERANCE = 1 / 4
/**
 * Decoding a frame may take a busy machine longer than the interval between two; it then looks less often, but it
 * looks.
 */
const LEAST_PATIENCE_MS = 1_000
const LONG_LOOK = 'The model is busy, or is being loaded: the last look has not ended yet'
/** A larger frame is not kept as the newest one for clients. */
const MOST_KEPT_BYTES = 4 * 2 ** 20

interface Frame extends WatchFrame {
  readonly about: FrameAbout
  readonly moment: Moment
  /** Whether the look before it took long enough to count as a gap. */
  readonly followsLongLook: boolean
}

/** Runs one watch on this server: receives frames, looks at some of them, and reports what has changed. */
export class LiveWatch {
  #watch: HeldWatch
  readonly #options: LiveWatchOptions
  readonly #events: EventTracker
  readonly #stop = new AbortController()
  readonly #counts: LookCounts
  /** When the last frame that was not too early was due. */
  #slot = Number.NEGATIVE_INFINITY
  /** When the last frame arrived; null before the first one. */
  #lastFrame: Moment | null
  /** When a client last sent a frame to this server, by the clock of `performance`. */
  #fedAt: number | null = null
  readonly #lag: LagMeter
  /** Why the last look failed, and since when looks have failed; null after a look that succeeded. */
  #failure: { readonly message: string; readonly since: Moment } | null = null
  #newest: Picture | null = null
  /** The last frame that was seen, whether or not something had moved in it. */
  #seen: { readonly number: number; readonly at: number } | null = null
  /**
   * When a frame was last accepted, and when one was last dropped because of the work on it (clock of `performance`).
   */
  #takenAt = Number.POSITIVE_INFINITY
  #missedAt = Number.NEGATIVE_INFINITY
  /** The last look; null if the next frame must be looked at even if nothing has moved. */
  #last: { readonly grey: Uint8Array; readonly at: number; readonly answers: readonly LookAnswer[] } | null = null
  readonly #owner: KeyOwner
  readonly #view: FrameView
  /** Null for a watch whose frames clients send. */
  readonly #camera: CameraFeed | null
  readonly #clips: ClipRecorder
  /** Work on a frame, or on a report without one; null while there is none. */
  #work: Promise<unknown> | null = null
  #changed: HeldWatch | null = null

  constructor(watch: HeldWatch, options: LiveWatchOptions) {
    this.#watch = watch
    this.#options = options
    const now = momentNow()
    this.#events = new EventTracker(watch, now, options)
    this.#counts = new LookCounts(options.meter)
    this.#lag = new LagMeter(options.lagMs)
    this.#owner = new KeyOwner(options.keys)
    this.#view = new FrameView({ ...options, owner: this.#owner, signal: this.#stop.signal })
    const { source } = watch.settings
    this.#camera =
      source.type === 'push'
        ? null
        : new CameraFeed(
            watch.organisationId,
            { ...watch.settings, source },
            {
              follow: options.cameras.follow,
              push: (frame) => this.push(frame, false),
            },
          )
    this.#clips = new ClipRecorder(watch, {
      desk: options.desk,
      faultOfStoring: (bytes) => this.#faultOfStoring(bytes),
      tell: (starts, clip) => this.#tellClip(starts, clip),
    })
    this.#lastFrame = watch.seenAt === null && this.#camera === null ? null : now
  }

  get organisation(): string {
    return this.#watch.organisationId
  }

  get version(): number {
    return (this.#changed ?? this.#watch).version
  }

  /** Whether its frames come from a camera. */
  get hasCamera(): boolean {
    return this.#camera !== null
  }

  /** The newest pushed frame that was looked at, or a camera's newest frame. Null if there is none. */
  async newest(): Promise<Picture | null> {
    return this.#camera === null ? this.#newest : this.#camera.newest()
  }

  get progress(): HeldProgress {
    return { ...this.#events.progress(momentNow()), fedMs: this.#fedMs }
  }

  /** Notes that a client has sent a frame. @returns whether this server still expected one. */
  feed(): boolean {
    const wasFed = (this.#fedMs ?? 0) > 0
    this.#fedAt = performance.now()
    return wasFed
  }

  get #fedMs(): number | null {
    if (this.#fedAt === null) return null
    // A look may take long: that time does not count.
    return this.#silence - (this.#work === null ? performance.now() - this.#fedAt : 0)
  }

  /** The time without frames that counts as silence, in milliseconds. */
  get #silence(): number {
    return silenceOf(this.#watch.settings, this.#options.silenceMs)
  }

  /** Whether the last look dropped frames for longer than counts as silence. */
  get #looksLong(): boolean {
    return this.#missedAt - this.#takenAt > this.#silence
  }

  report(): WatchReport {
    const { isOffline, suppressed } = this.#events
    const fault = this.#camera?.fault ?? null
    const isFailing = !isOffline && this.#failure !== null
    const counted = { ...this.#counts.report(suppressed), message: isFailing ? null : (this.#camera?.message ?? null) }
    if (isOffline) return { status: 'offline', reason: fault ?? 'No frames come', ...counted }
    if (this.#failure !== null) return { status: 'waiting', reason: this.#failure.message, ...counted }
    if (this.#work !== null && this.#looksLong) return { status: 'waiting', reason: LONG_LOOK, ...counted }
    return { status: this.#counts.looks === 0 ? 'starting' : 'running', reason: fault, ...counted }
  }

  /**
   * Looks at a frame, or drops it. Nothing queues: frames that arrive during a look are dropped.
   * @param waits whether to resolve only when the look has ended and its events are stored.
   * @throws ApiError 400 for bytes that are no picture; if it waits, also the errors of the look.
   */
  async push(given: WatchFrame, waits: boolean): Promise<Pushed> {
    const moment = momentNow()
    const number = ++this.#counts.frames
    this.#lastFrame = moment
    // A camera's frames already arrive at the rate of the watch.
    const isDue = this.#camera !== null || this.#isDue(moment)
    const dropped = this.#work !== null ? 'busy' : isDue ? null : 'rate'
    if (dropped === 'busy' && isDue) {
      this.#missedAt = moment.at
      this.#lag.missed(moment, this.#distance)
    }
    if (dropped !== null) {
      given.release()
      return this.#drop(number, dropped)
    }
    this.#slot = Math.max(this.#slot + this.#distance, moment.at)
    const followsLongLook = this.#looksLong
    this.#takenAt = moment.at
    const opened = Promise.withResolvers<'still' | null>()
    const work = this.#run(async () => {
      try {
        await this.#applyChange()
        const { grey, original } = await this.#view.open(given, this.#watch)
        const time = isoTime(moment.time - given.ageMs)
        const about = { number, time, camera_time: given.cameraTime?.toISOString() ?? null, ...original }
        const frame = { ...given, about, moment, followsLongLook }
        const still = this.#stillAnswers(grey, moment)
        opened.resolve(still === null ? null : 'still')
        return await (still === null ? this.#look(frame, grey) : this.#settle(frame, still, true))
      } catch (caught) {
        if (caught instanceof LateLook) return this.#noteLate(moment)
        const { aborted, reason } = this.#stop.signal
        const error = aborted ? reason : caught
        opened.reject(error)
        await this.#noteFailure(error, moment)
        throw error
      } finally {
        given.release()
      }
    })
    const isStill = (await opened.promise) === 'still'
    const answers = waits ? await work : undefined
    if (answers === null) return { frame: number, dropped: 'late' }
    if (isStill) return this.#drop(number, 'still')
    return { frame: number, ...(answers && { answers }) }
  }

  /**
   * Reports looks that have failed for as long as counts as silence. A frame that is no picture is the client's
   * mistake.
   */
  async #noteFailure(error: unknown, now: Moment): Promise<void> {
    const known = error instanceof ApiError ? error : null
    if (known?.param === FRAME || this.#stop.signal.aborted) return
    this.#counts.fail()
    const failure = { message: known?.message ?? 'Internal error', since: this.#failure?.since ?? now }
    this.#failure = failure
    if (now.at - failure.since.at < this.#silence) return
    // If that fails too, the next failure is reported.
    await this.#events.tellFailure(this.#watch, { ...failure, status: known?.status }).catch(() => {})
  }

  #noteLate(now: Moment): null {
    const message = 'The model is busy: the last look could not begin before the next was due'
    this.#failure = { message, since: this.#failure?.since ?? now }
    this.#counts.drop('late')
    this.#lag.missed(now, this.#distance)
    return null
  }

  #drop(frame: number, dropped: DropReason): Pushed {
    this.#counts.drop(dropped)
    return { frame, dropped }
  }

  /** Milliseconds between looks. */
  get #distance(): number {
    return 1000 / this.#watch.settings.fps
  }

  #isDue({ at }: Moment): boolean {
    return at >= this.#slot + this.#distance * (1 - TOLERANCE)
  }

  /** The answers of the last look, if nothing has moved since; else null. */
  #stillAnswers(grey: Uint8Array, { at }: Moment): readonly LookAnswer[] | null {
    const { motion } = this.#watch.settings
    const last = this.#last
    if (motion === null || last === null || at - last.at >= motion.at_least_every_seconds * 1000) return null
    return motionBetween(grey, last.grey) > motion.share ? null : last.answers
  }

  async #look(frame: Frame, grey: Uint8Array): Promise<readonly LookAnswer[]> {
    const { questions } = this.#watch.settings
    const beginBy = frame.moment.at + Math.max(this.#distance, LEAST_PATIENCE_MS)
    const answers = await this.#view.ask(questions.map(askedOf), frame, this.#watch, beginBy)
    await this.#settle(frame, answers, false)
    this.#last = { grey, at: frame.moment.at, answers }
    return answers
  }

  /** Stores and reports what the answers change. What could not be stored has not happened. */
  async #settle(frame: Frame, answers: readonly LookAnswer[], still: boolean): Promise<readonly LookAnswer[]> {
    const { id, settings } = this.#watch
    if (this.#camera === null) {
      const sent = await frame.picture()
      if (sent.bytes.byteLength <= MOST_KEPT_BYTES) this.#newest = sent
    }
    const { about, moment, followsLongLook } = frame
    const evidence = async (questions: readonly object[]) =>
      this.#view.places(questions, frame, this.#watch).catch(() => questions.map(() => null))
    const picture = async () => {
      if (!settings.record.frame) return null
      const kept = await frame.picture()
      return (await this.#faultOfStoring(kept.bytes.byteLength)) ?? kept
    }
    this.#lag.made(moment)
    const finding = {
      ...{ moment, about, answers, evidence, picture },
      after: this.#failure === null && !followsLongLook ? ('silent' as const) : ('waiting' as const),
      isNext: this.#isNext(about.number),
      lag: this.#lag.lag,
      hasClip: this.#camera !== null && clipOf(settings) !== null,
    }
    const started = await this.#events.settle(this.#watch, finding).catch((error) => {
      // The events may have been stored all the same, with clips that are pending.
      this.#clips.lose('stopped')
      throw error
    })
    if (started !== null) this.#clips.record(started, frame, settings, this.#camera)
    this.#failure = null
    this.#seen = { number: about.number, at: moment.at }
    this.#counts.settled(moment.at, still)
    this.#options.onLook(id, { frame: about, still, answers })
    return answers
  }

  async #tellClip(starts: readonly number[], clip: ToldClip | ClipError): Promise<void> {
    while (this.#work !== null) await this.#work
    await this.#run(() => this.#events.tellClip(this.#watch, starts, clip, momentNow()))
  }

  /**
   * Whether a camera's frame is the next one after the last that was seen. Key frames may be far apart without a gap.
   */
  #isNext(number: number): boolean {
    const seen = this.#seen
    if (this.#camera === null || seen === null) return false
    return number === seen.number + 1 && this.#camera.hasDeliveredSince(seen.at)
  }

  /** Why this many bytes cannot be stored; null if they can. */
  async #faultOfStoring(bytes: number): Promise<FileError | null> {
    try {
      await this.#options.files.checkStorage(await this.#owner.of(this.#watch), bytes)
      return null
    } catch (error) {
      return error instanceof ApiError && error.type === 'insufficient_quota' ? 'quota' : 'storage'
    }
  }

  /** Changes take effect at the next look. */
  change(watch: HeldWatch): void {
    this.#changed = watch
  }

  /** Reports silence and lost clips, and applies changes while no frames arrive. */
  async check(): Promise<void> {
    if (this.#work !== null) return
    if (this.#changed !== null) await this.#run(() => this.#applyChange())
    if (this.#camera !== null && this.#clips.mayHaveLost) {
      await this.#run(() =>
        this.#clips.mend((starts, reason) => this.#events.tellClip(this.#watch, starts, reason, momentNow())),
      )
    }
    const last = this.#lastFrame
    // Key frames may be far apart.
    if (this.#camera?.isDelivering) return
    if (last === null || this.#events.isOffline || momentNow().at - last.at <= this.#silence) return
    await this.#run(() => this.#events.tellSilence(this.#watch, last, this.#camera?.fault ?? 'silent'))
  }

  async #applyChange(): Promise<void> {
    const watch = this.#changed
    if (watch === null) return
    await this.#events.change(watch, momentNow())
    this.#watch = watch
    this.#camera?.change(watch.settings)
    this.#last = null
    if (this.#changed === watch) this.#changed = null
  }

  /** Callers run one work at a time. */
  #run<Result>(work: () => Promise<Result>): Promise<Result> {
    const running = work()
    const ended = running
      .catch(() => {})
      .then(() => {
        if (this.#work === ended) this.#work = null
      })
    this.#work = ended
    return running
  }

  /** Aborts a running look, and waits for its end. */
  async close(): Promise<void> {
    this.#stop.abort(serviceUnavailable('The watch was stopped while the frame was looked at', 1))
    await this.#work
    await this.#clips.close()
    this.#camera?.close()
    await this.#work
  }
}

function momentNow(): Moment {
  return { at: performance.now(), time: Date.now() }
}
