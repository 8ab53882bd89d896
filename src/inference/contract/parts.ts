import type { RgbImage } from '../../media/pixels.ts'

export type PromptPart = TextPart | MediaPart

export type MediaPart = ImagePart | FramesPart | AudioPart

export interface TextPart {
  readonly type: 'text'
  readonly text: string
  /**
   * True only for text that the server itself wrote (the chat template). Control tokens are parsed in trusted text
   * only, so a user's text cannot inject one.
   */
  readonly trusted: boolean
  /**
   * The tokens of a whole prompt in place of its text, which is then empty; nothing is added before them. Only for
   * local models.
   */
  readonly tokens?: readonly number[]
}

/** An image that already has the size that the model's encoder accepts (see `media/resize.ts`). */
export interface ImagePart {
  readonly type: 'image'
  readonly image: RgbImage
}

/**
 * One frame of a video, or two consecutive frames of the same size, which some model families merge into one grid of
 * tokens. Timestamps are not part of it: the prompt gives them as text before the frames.
 */
export interface FramesPart {
  readonly type: 'frames'
  readonly frames: readonly RgbImage[]
}

/** Mono audio of 16,000 samples per second, each from -1 to 1, at least 0.1 s long. */
export interface AudioPart {
  readonly type: 'audio'
  readonly samples: Float32Array
}
