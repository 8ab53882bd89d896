import type { AudioLimits, ImageLimits, VideoLimits } from '../../models/card.ts'
import type { GridRegion } from '../coordinates.ts'
import type { AudioType, VideoType } from '../media-type.ts'
import type { RgbImage, Size } from '../pixels.ts'
import type { RefusalCode } from './refusal.ts'

/** The pipe on which a task's bytes follow its message. Messages would copy them twice more. */
export const BYTES_FD = 4

/** Media that is to be decoded: its bytes, or a file that holds them. */
export type MediaData = Uint8Array | MediaFile

export interface MediaFile {
  readonly path: string
}

/** The same in the message of a task: bytes follow on `BYTES_FD`, as many as it says. */
export type SentData = { readonly byteLength: number } | MediaFile

/** Work for a process that decodes untrusted media; it does one task at a time. */
export type DecodeTask<Data = MediaData> = ImageTask<Data> | VideoTask<Data> | AudioTask<Data>

export interface ImageTask<Data = MediaData> {
  readonly type: 'image'
  readonly data: Data
  /** What the result is stretched to: what suits the model best, or just this. */
  readonly target: ImageLimits | Size
  /** The part of the upright picture to give; null for all of it. */
  readonly region: GridRegion | null
}

export interface VideoTask<Data = MediaData> {
  readonly type: 'video'
  readonly data: Data
  readonly format: VideoType
  readonly limits: VideoLimits
  /** No more than the model's own limit. */
  readonly maxFrames: number
  /** Limits of the sound track; null when it is not wanted. */
  readonly sound: AudioLimits | null
}

export interface AudioTask<Data = MediaData> {
  readonly type: 'audio'
  readonly data: Data
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

/** What a decoder process is told. */
export type DecoderMessage = DecodeTask<SentData> | { readonly type: 'granted' }

/** What it says: the end of its task or, before it takes much memory, that it waits to be granted that. */
export type DecoderEvent = DecodeReply | { readonly ok: 'asks' }

export type DecodeReply =
  | { readonly ok: true; readonly result: DecodeResult }
  | { readonly ok: false; readonly message: string; readonly code: RefusalCode | null }
  /** The fault is the server's, not the input's. */
  | { readonly ok: null; readonly message: string }
