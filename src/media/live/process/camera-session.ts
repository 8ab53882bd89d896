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
   * Milliseconds of the stream's own clock, from its first unit; null where the stream has none. Pictures that refer to later
   * ones make it go back a little. A camera's clock may stand still; where it jumps, this one goes on.
   */
  readonly mediaTime: number | null
  /** UTC as the camera tells it, which may be years off; null before it has told. */
  readonly cameraTime: Date | null
  /** Units before this one were lost or damaged. */
  readonly afterLoss: boolean
  /** Width of a pixel by its height, where what carries the video says it; the codec may say it, too. */
  readonly pixelAspect?: Rational | undefined
}

export interface SessionHooks {
  send(bytes: Uint8Array): void
  onUnit(unit: AccessUnit): void
  /** The camera has agreed to play. Units may come before. */
  onPlaying?(): void
  /** The session has failed on its own. */
  onError?(error: unknown): void
}

/**
 * What speaks with a camera over one connection. No method may be called after one has thrown, but `reopen` after `again`.
 */
export interface CameraSession {
  /** @throws CameraError */
  feed(bytes: Uint8Array): void
  /**
   * To be called about each second: keeps the session alive, and asks for the next picture of a `jpeg` source.
   * @throws CameraError
   */
  tick(nowMs: number): void
  /**
   * The connection has ended.
   * @throws CameraError where the session waits for something
   */
  end(): void
  /** Whether it waits for nothing, so that its connection may end. */
  readonly isIdle?: boolean
  /** For how much longer than others it may give nothing, in milliseconds. */
  readonly patienceMs?: number
  /** A new connection is open, for which it has asked with `again`. @throws CameraError */
  reopen?(): void
  /** Says goodbye. */
  close(): void
  /** Nothing comes of it any more. */
  [Symbol.dispose]?(): void
}

/**
 * `again`: nothing is wrong; the camera wants a new connection. `unreachable` is for those that connect.
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

/** Null for what is no time. */
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
