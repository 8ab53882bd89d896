export { GRID, type GridRegion, gridToPixels, isRegion, type Point, pixelsToGrid } from './coordinates.ts'
export { ImageLoader, type ImageLoaderOptions, type LoadedImage } from './image-loader.ts'
export type { RgbImage, Size } from './pixels.ts'
export { imageTokens, targetSize } from './resize.ts'
