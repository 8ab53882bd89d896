import type { AudioLimits, VideoLimits } from '../models/card.ts'
import type { GridRegion } from './coordinates.ts'
import type {
  Cuts,
  DecodedAudio,
  DecodedDocument,
  DecodedImage,
  DecodedVideo,
  SamplingWish,
} from './decoding/process/protocol.ts'
import type { ImageTarget } from './image-detail.ts'
import type { MediaReference } from './media-source.ts'
import type { Size } from './pixels.ts'

/** One media input of a request. */
export interface MediaInput {
  readonly reference: MediaReference
  /** Names the input in errors. */
  readonly param: string
  /** Fires when this input is no longer needed. */
  readonly signal: AbortSignal
  /** Whether the result is used only once: it is not cached, and does not count towards the request's limit. */
  readonly isUsedOnce?: boolean
}

export interface VideoOptions {
  readonly limits: VideoLimits
  /** The most frames that this video may take of the request's limit. */
  readonly maxFrames: number
  /** It is kept as far as the limits allow. */
  readonly wish?: SamplingWish | undefined
  /** Limits of the audio track; null when it is not to be decoded. */
  readonly sound: AudioLimits | null
}

/**
 * Loads the media of one request. Media that the request names twice is fetched and decoded once, and kept until this
 * is disposed of. An invalid input throws an ApiError 400 that names it. A server without room or capacity throws a
 * 503.
 */
export interface MediaRequest extends Disposable {
  /**
   * @param target the size to stretch the image to, or the limits within which to choose the best size.
   * @param region the part of the upright original to return; all of it by default.
   */
  image(input: MediaInput, target: ImageTarget | Size, region?: GridRegion): Promise<DecodedImage>
  /** The number of a document's pages. @param textOf pages, from 1, whose embedded text is wanted. */
  document(input: MediaInput, textOf?: readonly number[]): Promise<DecodedDocument>
  /** A page of a document, as an image. @param page counted from 1. */
  page(input: MediaInput, page: number, target: ImageTarget | Size, region?: GridRegion): Promise<DecodedImage>
  /** The whole image and parts of it, decoded once. They are not cached: they are large, and used only once. */
  cuts(input: MediaInput, target: ImageTarget, cuts: Cuts): Promise<DecodedImage>
  video(input: MediaInput, options: VideoOptions): Promise<DecodedVideo>
  /** @throws ApiError 400 `audio_token_limit_exceeded` when the audio is longer than the limits allow. */
  audio(input: MediaInput, limits: AudioLimits): Promise<DecodedAudio>
}
