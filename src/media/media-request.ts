import type { AudioLimits, ImageLimits, VideoLimits } from '../models/card.ts'
import type { GridRegion } from './coordinates.ts'
import type { DecodedAudio, DecodedImage, DecodedVideo } from './decoding/protocol.ts'
import type { MediaReference } from './media-source.ts'
import type { Size } from './pixels.ts'

/** One input of a request that is to be loaded. */
export interface MediaInput {
  readonly reference: MediaReference
  /** Names the input in errors. */
  readonly param: string
  /** Fires when this input is not wanted any more. */
  readonly signal: AbortSignal
}

export interface VideoWish {
  readonly limits: VideoLimits
  /** Frames that the request has left for this video. */
  readonly maxFrames: number
  /** Limits of the sound track; null when it is not to be heard. */
  readonly sound: AudioLimits | null
}

/**
 * Loads the media of one request: what it names twice is fetched and decoded once. What is wrong with an input is a 400
 * that names it; a server that has no room or too much to do answers 503. Until it is disposed of, it keeps what it has
 * loaded, in case that is named again.
 */
export interface MediaRequest extends Disposable {
  /**
   * @param target what the picture is stretched to: what suits the model best, or just this.
   * @param region the part of the upright original to give; all of it unless given.
   */
  image(input: MediaInput, target: ImageLimits | Size, region?: GridRegion): Promise<DecodedImage>
  video(input: MediaInput, wish: VideoWish): Promise<DecodedVideo>
  /** @throws ApiError 400 `audio_token_limit_exceeded` when it is longer than the limits allow. */
  audio(input: MediaInput, limits: AudioLimits): Promise<DecodedAudio>
}
