import type { Family } from '../family.ts'
import { TIMED_PAIRS } from '../video-layout.ts'

export const qwen3Vl: Family = {
  title: 'Qwen3-VL',
  projectors: ['qwen3vl_merger'],
  architectures: ['qwen3vl', 'qwen3vlmoe'],
  // With fewer than 1,024 tokens its boxes are inaccurate (llama.cpp #16842); llama.cpp's own limits are 8 to 4,096.
  image: { patchSize: 16, mergeSize: 2, minTokens: 1024, maxTokens: 4096 },
  // The frame rate and the smallest grid are the reference implementation's. Its largest grid, 768 tokens, would fill a
  // context of 32K with 43 pairs.
  video: { layout: TIMED_PAIRS, minTokens: 128, maxTokens: 256, framesPerSecond: 2, maxFrames: 128 },
  dialect: 'qwen3-vl',
  reading: { prompt: 'qwenvl html', notation: 'qwen3-vl' },
  toolSyntax: 'hermes',
  thought: { begin: '<think>\n', end: '</think>', closing: '\n</think>\n\n' },
}
