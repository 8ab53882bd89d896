import type { Family } from '../family.ts'
import { UNTIMED_PAIRS } from '../video-layout.ts'

/** The prompt from its makers' cookbook: `document_parsing.ipynb`. */
const PARSER =
  'You are an AI specialized in recognizing and extracting text from images. Your mission is to analyze the image document and generate the result in QwenVL Document Parser HTML format using specified tags while maintaining user privacy and data integrity.'

/**
 * Its coordinates are pixels of the resized image, unlike those of its successors. Its language model has the
 * architecture of Qwen2-VL; only the projector distinguishes the two.
 */
export const qwen25Vl: Family = {
  title: 'Qwen2.5-VL',
  projectors: ['qwen2.5vl_merger'],
  architectures: ['qwen2vl'],
  // With fewer than 1,024 tokens its boxes are inaccurate (llama.cpp #16842); llama.cpp's own limits are 8 to 4,096.
  image: { patchSize: 14, mergeSize: 2, minTokens: 1024, maxTokens: 4096 },
  video: { layout: UNTIMED_PAIRS, minTokens: 128, maxTokens: 256, framesPerSecond: 2, maxFrames: 128 },
  dialect: 'qwen2.5-vl',
  reading: { prompt: 'QwenVL HTML', notation: 'qwen2.5-vl', instruction: PARSER },
  toolSyntax: 'hermes',
  thought: null,
}
