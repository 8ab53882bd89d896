import { type Family, PLAIN } from '../family.ts'
import { UNTIMED_PAIRS } from '../video-layout.ts'

/** Its boxes are special tokens with coordinates between them, which are not supported. */
export const qwen2Vl: Family = {
  ...PLAIN,
  title: 'Qwen2-VL',
  projectors: ['qwen2vl_merger'],
  architectures: ['qwen2vl'],
  // llama.cpp's limits.
  image: { patchSize: 14, mergeSize: 2, minTokens: 8, maxTokens: 4096 },
  video: { layout: UNTIMED_PAIRS, minTokens: 128, maxTokens: 256, framesPerSecond: 2, maxFrames: 128 },
}
