export { GRID, type GridRegion, gridToPixels, isRegion, type Point, pixelsToGrid } from './coordinates.ts'
export { type DecodedAudio, type DecodedImage, type DecodedVideo, SAMPLE_RATE } from './decoding/protocol.ts'
export {
  type MediaInput,
  MediaLoader,
  type MediaLoaderOptions,
  type MediaMeter,
  type MediaRequest,
  type VideoWish,
} from './media-loader.ts'
export type { MediaReference } from './media-source.ts'
export { HEAD_BYTES, MEDIA_TYPES, type MediaKind, type MediaType, mediaType, typeName } from './media-type.ts'
export type { RgbImage, Size } from './pixels.ts'
export { imageTokens, targetSize } from './resize.ts'
export type { StoredFiles } from './stored-files.ts'
