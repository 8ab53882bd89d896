import type { AudioLimits, VideoLimits } from '../../../models/card.ts'
import type { GridRegion, PixelRegion } from '../../coordinates.ts'
import type { ImageTarget } from '../../image-detail.ts'
import type { AudioType, VideoType } from '../../media-type.ts'
import type { RgbImage, Size } from '../../pixels.ts'
import type { TileWish } from '../../tile-plan.ts'
import type { InvalidMediaCode } from '../invalid-media.ts'

/** The pipe that carries a task's bytes after its message. Sending them in the message would copy them twice more. */
export const BYTES_FD = 4
/** The socket that carries descriptors of files. */
export const FILES_FD = 5
/** An argument of a decoder process: it loads the image decoder before its first task. */
export const PRELOADS = '--preloads'

/** Media to decode: its bytes, or a file that holds them. */
export type MediaData = Uint8Array | MediaFile

export interface MediaFile {
  readonly path: string
  readonly length: number
}

/**
 * Media in a task's message: `bytes` bytes follow on `BYTES_FD`, or a file of `length` bytes. The descriptor of an open
 * file follows on `FILES_FD`; a decoder that is not confined opens the path itself.
 */
export type SentData =
  | { readonly type: 'bytes'; readonly length: number }
  | { readonly type: 'open_file'; readonly length: number }
  | { readonly type: 'file'; readonly path: string; readonly length: number }

/** A task for a decoder process, which runs one at a time. */
export type DecodeTask<Data = MediaData> =
  | ImageTask<Data>
  | VideoTask<Data>
  | AudioTask<Data>
  | DocumentTask<Data>
  | PageTask<Data>

/** The library that decodes each type of task. */
export const LIBRARIES = {
  image: 'sharp',
  video: 'ffmpeg',
  audio: 'ffmpeg',
  document: 'pdfium',
  page: 'pdfium',
} as const satisfies Record<DecodeTask['type'], string>

export interface ImageTask<Data = MediaData> {
  readonly type: 'image'
  readonly data: Data
  /** The size to stretch the image to, or the limits within which to choose the best size. */
  readonly target: ImageTarget | Size
  /** The part of the upright image to return; null for all of it. */
  readonly region: GridRegion | null
  /** The page of an image that has several, from 1; the first by default. */
  readonly page?: number
  /** Further parts of the upright image to return, within the same limits; none by default. */
  readonly cuts?: Cuts
}

/** Tiles of all grids except the last, which is the image itself; or given parts. */
export type Cuts = TileWish | readonly PixelRegion[]

/** How a client wants a video sampled, in place of the model's own rate. Without either, every frame is wanted. */
export interface SamplingWish {
  readonly framesPerSecond?: number | undefined
  /** The most frames, spread over the video. */
  readonly frames?: number | undefined
}

export interface VideoTask<Data = MediaData> {
  readonly type: 'video'
  readonly data: Data
  readonly format: VideoType
  readonly limits: VideoLimits
  /** The most frames to take. The model's own limit applies as well. */
  readonly maxFrames: number
  readonly wish?: SamplingWish | undefined
  /** Limits of the audio track; null when it is not to be decoded. */
  readonly sound: AudioLimits | null
}

export interface AudioTask<Data = MediaData> {
  readonly type: 'audio'
  readonly data: Data
  readonly format: AudioType
  readonly limits: AudioLimits
}

/** Reads the number of a document's pages, and the embedded text of some of them. */
export interface DocumentTask<Data = MediaData> {
  readonly type: 'document'
  readonly data: Data
  /** Pages from 1. */
  readonly textOf: readonly number[]
}

/** Renders one page of a document. */
export interface PageTask<Data = MediaData> {
  readonly type: 'page'
  readonly data: Data
  /** From 1. */
  readonly page: number
  readonly target: ImageTarget | Size
  /** The part of the upright page to return; null for all of it. */
  readonly region: GridRegion | null
}

/** The result of a task. `notes` say which parts of the media are left out, in sentences without a full stop. */
export interface DecodedImage {
  /** Upright, stretched to the size that the model takes. */
  readonly image: RgbImage
  /** Size of the upright original, for coordinates in its pixels. */
  readonly original: Size
  /** The first of the wanted parts; none if there are too many tiles. */
  readonly cuts?: readonly RgbImage[]
  readonly notes?: readonly string[]
}

export interface DecodedVideo {
  /** At least one frame. All are upright, of one size, and in order of time. */
  readonly frames: readonly VideoFrame[]
  /** Size of the upright pictures as they are shown, for coordinates in their pixels. */
  readonly original: Size
  /** From the container's start to the end of the pictures. */
  readonly durationSeconds: number
  /**
   * In step with the frames. If the container begins later than the video is long, it starts with the first stream.
   * Null for a video without audio that can be decoded, or when the audio was not requested.
   */
  readonly sound: DecodedAudio | null
  readonly notes?: readonly string[]
}

export interface VideoFrame {
  readonly image: RgbImage
  /** A moment at which it is shown, from the start of the container. These moments are equally far apart. */
  readonly seconds: number
  /** When it begins to be shown. */
  readonly since: number
}

export interface DecodedAudio {
  /** At least one sample; mono, 16 kHz, from -1 to 1. */
  readonly samples: Float32Array
  readonly notes?: readonly string[]
}

export interface DecodedDocument {
  /** At least one. */
  readonly pages: number
  /** Resolution of its pages, in pixels per inch. */
  readonly dpi: number
  /** One for each requested page; empty if the page is only a picture. */
  readonly texts: readonly string[]
}

export interface DecodeResults {
  readonly image: DecodedImage
  readonly video: DecodedVideo
  readonly audio: DecodedAudio
  readonly document: DecodedDocument
  readonly page: DecodedImage
}

export type DecodeResult = DecodeResults[DecodeTask['type']]

/** A message to a decoder process. */
export type DecoderMessage = DecodeTask<SentData> | { readonly type: 'granted' }

/**
 * A message from a decoder process: the result of its task, a request for memory, or notice that it now parses the
 * input.
 */
export type DecoderEvent = DecodeReply | { readonly ok: 'needs_memory' } | { readonly ok: 'begins' }

export type DecodeReply =
  | { readonly ok: true; readonly result: DecodeResult }
  | { readonly ok: false; readonly message: string; readonly code: InvalidMediaCode | null }
  /** The fault is the server's, not the input's. */
  | { readonly ok: null; readonly message: string; readonly mayPass?: boolean }
