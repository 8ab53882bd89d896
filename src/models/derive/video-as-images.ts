import type { ImageRule, VideoRule } from '../../families/family.ts'
import type { GgufMetadata } from '../../families/gguf.ts'
import { TIMED_PAIRS } from '../../families/video-layout.ts'
import { LEAST_PIXELS } from '../read/hugging-face.ts'

/**
 * A family's rule where an engine takes the frames of a video as images, each with its time in words before it: servers merge
 * only the frames of whole videos, to which they give times of their own.
 * @param encoder whose processor enlarges images below a size.
 */
export function videoAsImages(video: VideoRule, image: ImageRule | null, encoder: GgufMetadata | null): VideoRule {
  const pixels = encoder?.get(LEAST_PIXELS)
  const least = typeof pixels === 'number' && image !== null ? pixels / (image.patchSize * image.mergeSize) ** 2 : 1
  return {
    ...video,
    layout: video.layout.framesPerGrid === 1 ? video.layout : { ...TIMED_PAIRS, framesPerGrid: 1 },
    minTokens: Math.max(Math.ceil(least), video.minTokens ?? 1),
    ...(video.maxTokens === undefined ? {} : { maxTokens: Math.max(Math.ceil(least), video.maxTokens) }),
  }
}
