import type { ArrivedFrame, Recording } from '../media/live/camera-child.ts'
import type { Follower } from '../media/live/camera-connection.ts'
import type { FollowedCamera } from '../media/live/camera-pool.ts'
import type { CameraFault, CameraLoss, Decode } from '../media/live/camera-source.ts'
import type { ClipSpan } from '../media/live/protocol.ts'
import type { Picture, WatchFrame } from './look.ts'
import { type CameraRecord, keepMsOf, type WatchSettings } from './watch-settings.ts'

/** Follows the camera of an organisation's watch. Returns a permanent fault if the organisation may not use it. */
export type FollowCamera = (
  organisation: string,
  source: CameraRecord,
  follower: Follower,
) => FollowedCamera | CameraLoss

interface FeedOptions {
  readonly follow: FollowCamera
  /** Resolves when the frame is being looked at, or was dropped. */
  readonly push: (frame: WatchFrame) => Promise<unknown>
}

type FeedSettings = Pick<WatchSettings, 'fps' | 'record' | 'questions'> & { readonly decode?: Decode | undefined }

/**
 * Feeds a watch with the frames of its camera, at its rate. Nothing queues: once a frame was accepted or dropped, it
 * asks for the next one, which is then the newest.
 */
export class CameraFeed {
  readonly #push: FeedOptions['push']
  /** Null if it may not be followed. */
  readonly #camera: FollowedCamera | null
  readonly #state: Pick<FollowedCamera, 'fault' | 'message'>
  /** When the camera last stopped delivering, by the clock of `performance`. */
  #brokenAt = Number.NEGATIVE_INFINITY

  constructor(
    organisation: string,
    settings: FeedSettings & { readonly source: CameraRecord },
    { follow, push }: FeedOptions,
  ) {
    this.#push = push
    const followed = follow(organisation, settings.source, this.#followerOf(settings))
    this.#state = followed
    this.#camera = 'want' in followed ? followed : null
    this.#want()
  }

  /** Why no frames arrive; null while they do, and before the reason is known. */
  get fault(): CameraFault | null {
    return this.#state.fault
  }

  /** Details of the fault. */
  get message(): string | null {
    return this.#state.message
  }

  get isDelivering(): boolean {
    return this.#camera?.isDelivering === true
  }

  /** Whether frames have arrived without a break since then, however far apart they are. */
  hasDeliveredSince(at: number): boolean {
    return this.isDelivering && this.#brokenAt < at
  }

  change(settings: FeedSettings): void {
    this.#camera?.change(this.#followerOf(settings))
  }

  async newest(): Promise<Picture | null> {
    const bytes = (await this.#camera?.newest()) ?? null
    return bytes && { bytes, contentType: 'image/jpeg' }
  }

  /** Records a clip; null if the camera is not connected. */
  record(span: ClipSpan): Recording | null {
    return this.#camera?.record(span) ?? null
  }

  close(): void {
    this.#camera?.close()
  }

  #followerOf(settings: FeedSettings): Follower {
    const { fps, decode = 'auto' } = settings
    return {
      pace: { everyMs: 1000 / fps, decode, keepMs: keepMsOf(settings) },
      onFrame: (arrived) => void this.#take(arrived),
      onState: () => {
        if (!this.isDelivering) this.#brokenAt = performance.now()
      },
    }
  }

  #want(): void {
    this.#camera?.want()
  }

  async #take({ frame, ageMs, cameraTime }: ArrivedFrame): Promise<void> {
    const given: WatchFrame = {
      media: () => frame,
      cameraTime: cameraTime === null ? null : new Date(cameraTime),
      ageMs,
      picture: async () => ({ bytes: await frame.jpeg(), contentType: 'image/jpeg' }),
      release: () => frame[Symbol.dispose](),
    }
    // The watch reports failures itself.
    await this.#push(given).catch(() => {})
    this.#want()
  }
}
