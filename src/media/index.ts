export { promptAudioTokens, SAMPLE_RATE } from './audio-tokens.ts'
export { GRID, type GridRegion, gridToPixels, isRegion, type Point, pixelsToGrid } from './coordinates.ts'
export { decodeBitmap, isBitmap, readBitmapHeader } from './decoding/bitmap.ts'
export { isDecodable, isFFmpegInstalled } from './decoding/ffmpeg-package.ts'
export type { DecodedAudio, DecodedImage, DecodedVideo } from './decoding/protocol.ts'
export type { StoredFiles } from './fetching/stored-files.ts'
export { IMAGE_DETAILS, type ImageDetail, type ImageTarget, targetFor } from './image-detail.ts'
export { InlineMedia } from './inline-media.ts'
export { MediaLoader, type MediaLoaderOptions, type MediaMeter } from './media-loader.ts'
export type { MediaInput, MediaRequest, VideoOptions } from './media-request.ts'
export { locate, type MediaReference } from './media-source.ts'
export type { MediaStage, MediaTrace } from './media-trace.ts'
export {
  adviceFor,
  HEAD_BYTES,
  MEDIA_TYPES,
  type MediaKind,
  type MediaType,
  mediaType,
  typeName,
} from './media-type.ts'
export type { RgbImage, Size } from './pixels.ts'
export { encodePng } from './png.ts'
export { imageTokens, isPrepared, targetSize } from './resize.ts'
export { chooseSandbox } from './sandbox/choice.ts'
