import type { AudioLimits } from '../models/card.ts'

/** Samples per second that the audio encoders of all model families expect. */
export const SAMPLE_RATE = 16_000

/**
 * The number of tokens for this many samples. Encoders that work in windows pad the last window with silence, and add
 * one more when the audio ends exactly with a window: 20 seconds are 21 one-second windows, as llama.cpp also counts
 * them.
 */
export function audioTokens(samples: number, { tokensPerSecond, windowSeconds }: AudioLimits): number {
  const seconds = samples / SAMPLE_RATE
  if (windowSeconds === undefined) return Math.ceil(seconds * tokensPerSecond)
  return (Math.floor(seconds / windowSeconds) + 1) * Math.ceil(tokensPerSecond * windowSeconds)
}

/** The longest audio that the limits allow, in whole seconds. */
export function mostAudioSeconds({ tokensPerSecond, windowSeconds, maxTokens }: AudioLimits): number {
  if (windowSeconds === undefined) return Math.floor(maxTokens / tokensPerSecond)
  return Math.floor(Math.floor(maxTokens / Math.ceil(tokensPerSecond * windowSeconds)) * windowSeconds)
}
