import type { Rational } from '../../decoding/ffmpeg.ts'

/** One picture, as the camera encoded it. */
export interface AccessUnit {
  readonly codec: 'h264' | 'h265' | 'jpeg'
  /** Annex B, or a JPEG file. The receiver owns it. A key unit of video begins with its parameter sets. */
  readonly data: Uint8Array
  readonly isKey: boolean
  /**
   * Decoding may begin here too, and shows nothing until the camera has refreshed all parts of the picture: some send one key
   * frame at most. Such a unit also begins with its parameter sets.
   */
  readonly isEntry?: boolean
  /**
   * Milliseconds of the stream's own clock, from its first unit; null if the stream has none. It goes back a little for
   * pictures that refer to later ones. A camera's clock may stand still; if it jumps, this time continues without the
   * jump.
   */
  readonly mediaTime: number | null
  /** UTC by the camera, which may be years off; null before the camera has sent it. */
  readonly cameraTime: Date | null
  /** Units before this one were lost or damaged. */
  readonly afterLoss: boolean
  /** Width of a pixel divided by its height, if the container says so; the codec may say so too. */
  readonly pixelAspect?: Rational | undefined
}

export interface SessionHooks {
  send(bytes: Uint8Array): void
  onUnit(unit: AccessUnit): void
  /** The camera has agreed to play. Units may arrive before. */
  onPlaying?(): void
  /** The session has failed on its own. */
  onError?(error: unknown): void
}

/**
 * Speaks a camera's protocol over one connection. After a method has thrown, no other may be called, except `reopen`
 * after `again`.
 */
export interface CameraSession {
  /** @throws CameraError */
  feed(bytes: Uint8Array): void
  /**
   * Call it about once a second: it keeps the session alive, and asks for the next picture of a `jpeg` source.
   * @throws CameraError
   */
  tick(nowMs: number): void
  /**
   * The connection has ended.
   * @throws CameraError if the session still waits for something
   */
  end(): void
  /** Whether it waits for nothing, so that its connection may end. */
  readonly isIdle?: boolean
  /** How much longer than other sessions it may deliver nothing, in milliseconds. */
  readonly patienceMs?: number
  /** The new connection that it has asked for with `again` is open. @throws CameraError */
  reopen?(): void
  /** Ends the session with the camera in order. */
  close(): void
  /** It delivers nothing after this. */
  [Symbol.dispose]?(): void
}

/**
 * `again`: nothing is wrong, but the session needs a new connection. `unreachable` is for the code that connects.
 */
export type CameraFault =
  | 'unreachable'
  | 'refused'
  | 'unauthorized'
  | 'no_video'
  | 'unsupported_codec'
  | 'not_allowed'
  | 'ended'
  | 'protocol'
  | 'again'

/** Its message holds neither addresses nor credentials. */
export class CameraError extends Error {
  override readonly name = 'CameraError'
  readonly reason: CameraFault

  constructor(reason: CameraFault, message: string) {
    super(message)
    this.reason = reason
  }
}

export const CLOSED = 'The camera has closed the connection'

/** Null for an invalid time. */
export function dateOf(time: string | number): Date | null {
  const date = new Date(time)
  return Number.isNaN(date.getTime()) ? null : date
}

/** Whether decoding may begin with a unit. */
export function isStart({ isKey, isEntry }: Pick<AccessUnit, 'isKey' | 'isEntry'>): boolean {
  return isKey || isEntry === true
}

/** Maximum size of one access unit, in bytes. */
export const MAX_UNIT = 4 * 1024 * 1024
