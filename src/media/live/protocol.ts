import type { GridRegion } from '../coordinates.ts'
import type { ImageTarget } from '../image-detail.ts'
import type { RgbImage, Size } from '../pixels.ts'
import type { CameraLoss, CameraSource, Pace } from './camera-source.ts'

/** Messages to a camera process. Cameras, followers, frames and questions have numbers; no number is used twice. */
export type CameraMessage =
  /** Opens a camera, over the socket that comes with the message. */
  | { readonly type: 'open'; readonly camera: number; readonly source: CameraSource; readonly silenceMs: number }
  /** The new connection that a camera has asked for. */
  | { readonly type: 'attach'; readonly camera: number }
  | { readonly type: 'close'; readonly camera: number }
  /** A follower wants frames of a camera from now on, or at another pace. */
  | { readonly type: 'follow'; readonly camera: number; readonly follower: number; readonly pace: Pace }
  | { readonly type: 'leave'; readonly camera: number; readonly follower: number }
  /** A follower can take one frame: the newest one, as soon as it is due. */
  | { readonly type: 'want'; readonly camera: number; readonly follower: number }
  | { readonly type: 'release'; readonly frame: number }
  | {
      readonly type: 'view'
      readonly question: number
      readonly frame: number
      readonly target: ImageTarget | Size
      readonly region: GridRegion | null
    }
  | { readonly type: 'jpeg'; readonly question: number; readonly frame: number }
  /** The newest frame of a camera, as a JPEG. */
  | { readonly type: 'newest'; readonly question: number; readonly camera: number }
  /** Records a clip of a camera. Answered when the clip has ended. */
  | {
      readonly type: 'record'
      readonly question: number
      readonly camera: number
      readonly clip: number
      readonly span: ClipSpan
    }
  /** Ends a clip now. */
  | { readonly type: 'finish'; readonly clip: number }
  /** The next bytes of a clip; none at its end. */
  | { readonly type: 'piece'; readonly question: number; readonly clip: number }
  | { readonly type: 'drop'; readonly clip: number }

/** Messages of a camera process. */
export type CameraEvent =
  /** It has loaded its code and has confined itself. */
  | { readonly type: 'ready' }
  | { readonly type: 'beat'; readonly received: Received }
  /** A camera has delivered its first frame. */
  | { readonly type: 'delivering'; readonly camera: number }
  /** A frame for a follower. It is kept until it is released. */
  | ({ readonly type: 'frame'; readonly camera: number; readonly follower: number } & FrameAbout)
  /** A camera needs another connection. Its socket is closed. */
  | { readonly type: 'again'; readonly camera: number }
  /** A camera has ended, or sent something that cannot be used. Its socket is closed. */
  | ({ readonly type: 'lost'; readonly camera: number } & CameraLoss)
  /** Null if the frame or clip no longer exists. */
  | { readonly type: 'answer'; readonly question: number; readonly value: CameraAnswer }

export type CameraAnswer = RgbImage | Uint8Array | ClipAbout | ClipFault | null

/** Counts of what cameras have sent. */
export interface Received {
  bytes: number
  /** Encoded pictures. */
  frames: number
  /** Decoded pictures. */
  pictures: number
}

/** The span of a clip, in milliseconds relative to the request. */
export interface ClipSpan {
  /** How long ago it begins. */
  readonly agoMs: number
  /** How long ago the moment was that it must show. */
  readonly momentAgoMs: number
  readonly forMs: number
}

/** A clip that has ended. */
export interface ClipAbout {
  /** An upper bound of the file's size, close to it. */
  readonly bytes: number
  /** How long ago its first and its last picture arrived. */
  readonly fromAgoMs: number
  readonly toAgoMs: number
}

/**
 * Why there is no clip. `busy`: the process holds as much as it may. `codec`: the camera sends JPEG. `no_key_frame`:
 * the kept video has none before the moment. `stopped`: the camera's process has ended.
 */
export const CLIP_FAULTS = ['busy', 'codec', 'no_key_frame', 'stopped'] as const
export type ClipFault = (typeof CLIP_FAULTS)[number]

export interface FrameAbout {
  readonly frame: number
  /** Upright, with square pixels. */
  readonly original: Size
  /** Time since the last packet of the frame arrived. */
  readonly ageMs: number
  /** By the camera's clock, in Unix milliseconds; null if the camera does not send it. */
  readonly cameraTime: number | null
}
