import type { ImageLimits } from '../models/card.ts'
import type { GridRegion } from './coordinates.ts'
import type { RgbImage, Size } from './pixels.ts'

/** Messages between the service and the process that decodes untrusted media. */
export interface DecodeRequest {
  readonly id: number
  readonly bytes: Uint8Array
  readonly limits: ImageLimits
  /** The part of the upright picture to give; null for all of it. */
  readonly region: GridRegion | null
}

export type DecodeReply =
  | { readonly id: number; readonly ok: true; readonly image: RgbImage; readonly original: Size }
  /** `message` is fit for the client: it speaks of the picture only. */
  | { readonly id: number; readonly ok: false; readonly message: string }
