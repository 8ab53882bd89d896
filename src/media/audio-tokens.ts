import type { AudioLimits } from '../models/card.ts'

/** Samples a second, as the audio encoders of all families take them. */
export const SAMPLE_RATE = 16_000

/**
 * Tokens that an encoder makes of a sound. Those that take windows fill up the last one with silence, and begin one more
 * behind a sound that ends with a window: 20 seconds are 21 windows of one second, which is what llama.cpp counts, too.
 */
export function audioTokens(samples: number, { tokensPerSecond, windowSeconds }: AudioLimits): number {
  const seconds = samples / SAMPLE_RATE
  if (windowSeconds === undefined) return Math.ceil(seconds * tokensPerSecond)
  return (Math.floor(seconds / windowSeconds) + 1) * Math.ceil(tokensPerSecond * windowSeconds)
}

/** How long a sound may be, to the second. */
export function mostAudioSeconds({ tokensPerSecond, windowSeconds, maxTokens }: AudioLimits): number {
  if (windowSeconds === undefined) return Math.floor(maxTokens / tokensPerSecond)
  return Math.floor(Math.floor(maxTokens / Math.ceil(tokensPerSecond * windowSeconds)) * windowSeconds)
}
