import type { Recording } from '../media/live/camera-child.ts'
import type { LiveClip } from '../media/live/live-clip.ts'
import type { Draft } from '../storage/blob-store.ts'
import type { CameraFeed } from './camera-feed.ts'
import type { Moment } from './events/event-state.ts'
import type { Started } from './events/event-tracker.ts'
import { type ClipError, type FileError, isoTime } from './events/watch-events.ts'
import type { HeldWatch, ToldClip, WatchDesk } from './watch-desk.ts'
import { clipOf, type WatchSettings } from './watch-settings.ts'

interface ClipRecorderOptions {
  readonly desk: Pick<WatchDesk, 'draft' | 'pendingClips'>
  /** Why this many bytes cannot be stored; null if they can. */
  readonly faultOfStoring: (bytes: number) => Promise<FileError | null>
  /** Stores the clip of started events, or why there is none. `starts` are the numbers of the events. */
  readonly tell: (starts: readonly number[], clip: ToldClip | ClipError) => Promise<void>
}

type Loss = 'stopped' | 'storage'

/** Records clips of the events of one watch. */
export class ClipRecorder {
  readonly #watch: string
  readonly #options: ClipRecorderOptions
  readonly #open = new Map<Promise<void>, { readonly starts: readonly number[]; readonly finish: () => void }>()

  /** Why stored clips may be pending that are no longer recorded; null if none are. */
  #loss: Loss | null

  constructor({ id, seq }: Pick<HeldWatch, 'id' | 'seq'>, options: ClipRecorderOptions) {
    this.#watch = id
    this.#options = options
    this.#loss = seq === 0 ? null : 'stopped'
  }

  /** Records one clip for all events that have started at a frame. */
  record(
    { numbers: starts, since }: Started,
    { moment, ageMs }: { readonly moment: Moment; readonly ageMs: number },
    settings: Pick<WatchSettings, 'record'>,
    camera: Pick<CameraFeed, 'record'> | null,
  ): void {
    const clip = clipOf(settings)
    if (clip === null || camera === null) return
    const lookMs = performance.now() - moment.at
    const momentAgoMs = lookMs + ageMs
    const agoMs = Math.max(momentAgoMs, Date.now() - since + ageMs) + clip.beforeMs
    const recording = camera.record({ agoMs, momentAgoMs, forMs: Math.max(0, clip.afterMs - lookMs) })
    const done: Promise<void> = this.#keep(starts, recording)
      .catch(() => this.lose('storage'))
      .finally(() => this.#open.delete(done))
    this.#open.set(done, { starts, finish: () => recording?.finish() })
  }

  /** Notes that clips may be stored as pending that are not recorded. */
  lose(reason: Loss): void {
    this.#loss ??= reason
  }

  get mayHaveLost(): boolean {
    return this.#loss !== null
  }

  /** Reports clips that are stored as pending but no longer recorded, because a server or its storage has failed. */
  async mend(tell: (starts: readonly number[], reason: Loss) => Promise<void>): Promise<void> {
    const reason = this.#loss ?? 'stopped'
    this.#loss = null
    try {
      const open = new Set([...this.#open.values()].flatMap(({ starts }) => starts))
      const lost = (await this.#options.desk.pendingClips(this.#watch)).filter((seq) => !open.has(seq))
      if (lost.length > 0) await tell(lost, reason)
    } catch (error) {
      this.lose(reason)
      throw error
    }
  }

  /** Ends all clips, and waits until they are stored. */
  async close(): Promise<void> {
    for (const { finish } of this.#open.values()) finish()
    await Promise.all(this.#open.keys())
  }

  async #keep(starts: readonly number[], recording: Recording | null): Promise<void> {
    const { tell, faultOfStoring } = this.#options
    const ended = (await recording?.ended) ?? 'stopped'
    if (typeof ended === 'string') return tell(starts, ended)
    using clip = ended
    const now = Date.now()
    const { bytes, fromAgoMs, toAgoMs } = clip.about
    const fault = await faultOfStoring(bytes)
    if (fault !== null) return tell(starts, fault)
    const written = await this.#write(clip)
    if (typeof written === 'string') return tell(starts, written)
    const told = { ...written, from: isoTime(now - fromAgoMs), to: isoTime(now - toAgoMs) }
    await tell(starts, told).catch(async (error) => {
      await written.draft.discard().catch(() => {})
      throw error
    })
  }

  async #write(clip: LiveClip): Promise<Pick<ToldClip, 'draft' | 'bytes'> | ClipError> {
    let draft: Draft | null = null
    let fault: ClipError = 'storage'
    try {
      const opened = await this.#options.desk.draft()
      draft = opened
      const bytes = await clip.read((piece) => opened.write(piece))
      if (bytes !== null) return { draft, bytes }
      fault = 'stopped'
    } catch {
      // The blob store has failed.
    }
    await draft?.discard().catch(() => {})
    return fault
  }
}
