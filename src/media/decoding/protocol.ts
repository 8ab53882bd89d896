import type { AudioLimits, ImageLimits, VideoLimits } from '../../models/card.ts'
import type { GridRegion } from '../coordinates.ts'
import type { AudioType, VideoType } from '../media-type.ts'
import type { RgbImage, Size } from '../pixels.ts'
import type { RefusalCode } from './refusal.ts'

/** The pipe on which a task's bytes follow its message. Messages would copy them twice more. */
export const BYTES_FD = 4

/** A task as its message says it: with the number of bytes that follow on `BYTES_FD`. */
export type DecodeMessage = {
  [Type in DecodeTask['type']]: Omit<Extract<DecodeTask, { type: Type }>, 'bytes'> & { readonly byteLength: number }
}[DecodeTask['type']]

/** Work for a process that decodes untrusted media; it does one task at a time. */
export type DecodeTask = ImageTask | VideoTask | AudioTask

export interface ImageTask {
  readonly type: 'image'
  readonly bytes: Uint8Array
  /** What the result is stretched to: what suits the model best, or just this. */
  readonly target: ImageLimits | Size
  /** The part of the upright picture to give; null for all of it. */
  readonly region: GridRegion | null
}

export interface VideoTask {
  readonly type: 'video'
  readonly bytes: Uint8Array
  readonly format: VideoType
  readonly limits: VideoLimits
  /** No more than the model's own limit. */
  readonly maxFrames: number
  /** Limits of the sound track; null when it is not wanted. */
  readonly sound: AudioLimits | null
}

export interface AudioTask {
  readonly type: 'audio'
  readonly bytes: Uint8Array
  readonly format: AudioType
  readonly limits: AudioLimits
}

export interface DecodedImage {
  /** Upright, stretched to the size that the model takes. */
  readonly image: RgbImage
  /** Size of the upright original, for coordinates in its pixels. */
  readonly original: Size
}

export interface DecodedVideo {
  /** Upright and of one size, in order of time. At least one. */
  readonly frames: readonly VideoFrame[]
  readonly original: Size
  readonly durationSeconds: number
  /** Null for a video without sound, or whose sound is not wanted. */
  readonly sound: DecodedAudio | null
}

export interface VideoFrame {
  readonly image: RgbImage
  /** When it is on the screen, from the start of the video. */
  readonly seconds: number
}

export interface DecodedAudio {
  /** Mono, 16 kHz, -1 to 1. At least one. */
  readonly samples: Float32Array
}

export interface DecodeResults {
  readonly image: DecodedImage
  readonly video: DecodedVideo
  readonly audio: DecodedAudio
}

export type DecodeResult = DecodeResults[DecodeTask['type']]

export type DecodeReply =
  | { readonly ok: true; readonly result: DecodeResult }
  | { readonly ok: false; readonly message: string; readonly code: RefusalCode | null }
  /** The fault is the server's, not the input's. */
  | { readonly ok: null; readonly message: string }

/** Samples a second, as the audio encoders of all families take them. */
export const SAMPLE_RATE = 16_000
