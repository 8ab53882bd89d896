import type { GridRegion } from '../coordinates.ts'
import type { ImageTarget } from '../image-detail.ts'
import type { RgbImage, Size } from '../pixels.ts'
import type { CameraLoss, CameraSource, Pace } from './camera-source.ts'

/** What a camera process is told. Cameras, followers, frames and questions have numbers; no number is used twice. */
export type CameraMessage =
  /** Speak to a camera, over the socket that comes with the message. */
  | { readonly type: 'open'; readonly camera: number; readonly source: CameraSource; readonly silenceMs: number }
  /** Another connection, which a camera wants. */
  | { readonly type: 'attach'; readonly camera: number }
  | { readonly type: 'close'; readonly camera: number }
  /** Somebody wants frames of a camera from now on, or at another pace. */
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
  /** A clip of a camera, which is answered when it has ended. */
  | {
      readonly type: 'record'
      readonly question: number
      readonly camera: number
      readonly clip: number
      readonly span: ClipSpan
    }
  /** A clip ends now. */
  | { readonly type: 'finish'; readonly clip: number }
  /** The next bytes of a clip; none at its end. */
  | { readonly type: 'piece'; readonly question: number; readonly clip: number }
  | { readonly type: 'drop'; readonly clip: number }

/** What a camera process says. */
export type CameraEvent =
  /** It has loaded its code and has confined itself. */
  | { readonly type: 'ready' }
  | { readonly type: 'beat'; readonly received: Received }
  /** A camera has delivered its first frame. */
  | { readonly type: 'delivering'; readonly camera: number }
  /** A frame for a follower. It is kept until it is released. */
  | ({ readonly type: 'frame'; readonly camera: number; readonly follower: number } & FrameAbout)
  /** A camera wants another connection. Its socket is closed. */
  | { readonly type: 'again'; readonly camera: number }
  /** A camera has ended, or what it sent cannot be used. Its socket is closed. */
  | ({ readonly type: 'lost'; readonly camera: number } & CameraLoss)
  /** Null for what is not there any more. */
  | { readonly type: 'answer'; readonly question: number; readonly value: CameraAnswer }

export type CameraAnswer = RgbImage | Uint8Array | ClipAbout | ClipFault | null

/** What has come from cameras. */
export interface Received {
  bytes: number
  /** Pictures as they were encoded. */
  frames: number
  /** Those of them that were decoded. */
  pictures: number
}

/** What a clip is to show, in milliseconds from when it is asked for. */
export interface ClipSpan {
  /** How long ago it begins. */
  readonly agoMs: number
  /** How long ago was what it is recorded for, which it must have. */
  readonly momentAgoMs: number
  readonly forMs: number
}

/** A clip that has ended. */
export interface ClipAbout {
  /** About as many as its file has, and not fewer. */
  readonly bytes: number
  /** How long ago its first and its last picture came. */
  readonly fromAgoMs: number
  readonly toAgoMs: number
}

/**
 * Why there is no clip. `busy`: the process holds as many as it may. `codec`: the camera sends JPEG. `no_key_frame`: what is
 * kept has none that comes before. `stopped`: the camera's process has ended.
 */
export const CLIP_FAULTS = ['busy', 'codec', 'no_key_frame', 'stopped'] as const
export type ClipFault = (typeof CLIP_FAULTS)[number]

export interface FrameAbout {
  readonly frame: number
  /** Upright, with square pixels. */
  readonly original: Size
  /** Since the last packet of the frame came. */
  readonly ageMs: number
  /** By the camera's clock, in Unix milliseconds; null where it does not tell. */
  readonly cameraTime: number | null
}
