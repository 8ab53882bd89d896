import type { GridRegion } from '../coordinates.ts'
import type { ImageTarget } from '../image-detail.ts'
import type { RgbImage, Size } from '../pixels.ts'
import type { CameraFault, CameraSource, Pace } from './camera-source.ts'

/** What a camera process is told. Cameras, followers, frames and questions have numbers; no number is used twice. */
export type CameraMessage =
  /**
   * Speak to a camera, over the socket that comes with the message. Connections to one camera, one after the other, have
   * the same `login`.
   */
  | {
      readonly type: 'open'
      readonly camera: number
      readonly login: number
      readonly source: CameraSource
      readonly silenceMs: number
    }
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

/** What a camera process says. */
export type CameraEvent =
  /** It has loaded its code and has confined itself. */
  | { readonly type: 'ready' }
  | { readonly type: 'beat' }
  /** A camera has delivered its first frame. */
  | { readonly type: 'delivering'; readonly camera: number }
  /** A frame for a follower. It is kept until it is released. */
  | ({ readonly type: 'frame'; readonly camera: number; readonly follower: number } & FrameAbout)
  /** A camera has ended, or what it sent cannot be used. Its socket is closed. */
  | { readonly type: 'lost'; readonly camera: number; readonly fault: Loss }
  /** Null for what is not there any more. */
  | { readonly type: 'answer'; readonly question: number; readonly value: RgbImage | Uint8Array | null }

/** Why a connection ended; `again`: the camera wants another one. */
export type Loss = CameraFault | 'again'

export interface FrameAbout {
  readonly frame: number
  /** Upright, with square pixels. */
  readonly original: Size
  /** Since the last packet of the frame came. */
  readonly ageMs: number
  /** By the camera's clock, in Unix milliseconds; null where it does not tell. */
  readonly cameraTime: number | null
}
