import type { Family } from '../family.ts'

export const gemma4: Family = {
  title: 'Gemma 4',
  projectors: ['gemma4v', 'gemma4uv'],
  architectures: ['gemma4'],
  // It was trained with five sizes: 70, 140, 280, 560 and 1,120 tokens; its processor uses the third by default. The
  // minimum and maximum are llama.cpp's limits.
  image: {
    patchSize: 16,
    mergeSize: 3,
    minTokens: 70,
    maxTokens: 1120,
    auto: { minTokens: 252, maxTokens: 280 },
  },
  // Its video processor shows up to 32 frames of up to 70 tokens, each after its timestamp.
  video: {
    layout: { framesPerGrid: 1, timestamp: ' {mm:ss} ' },
    minTokens: 48,
    maxTokens: 70,
    framesPerSecond: 2,
    maxFrames: 32,
  },
  dialect: 'gemma',
  toolSyntax: 'gemma4',
  thought: null,
}
