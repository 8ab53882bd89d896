import type { AudioLimits } from '../models/card.ts'

/** Samples per second that the audio encoders of all model families expect. */
export const SAMPLE_RATE = 16_000

/** The number of tokens that this many samples count for, in limits and in usage. */
export function audioTokens(samples: number, { tokensPerSecond }: Pick<AudioLimits, 'tokensPerSecond'>): number {
  return Math.ceil((samples * tokensPerSecond) / SAMPLE_RATE)
}

/**
 * The number of tokens that this many samples take in a prompt, which is never less. Encoders that work in windows pad
 * the last window with silence, and add one more when the audio ends exactly with a window: 20 seconds are 21
 * one-second windows, as llama.cpp also counts them. The tokens of a window are rounded up.
 */
export function promptAudioTokens(samples: number, limits: AudioLimits): number {
  const { tokensPerSecond, windowSeconds } = limits
  if (windowSeconds === undefined) return audioTokens(samples, limits)
  return (Math.floor(samples / SAMPLE_RATE / windowSeconds) + 1) * Math.ceil(tokensPerSecond * windowSeconds)
}

/** The longest audio that the limits allow, in whole seconds. */
export function mostAudioSeconds({ tokensPerSecond, maxTokens }: AudioLimits): number {
  return Math.floor(maxTokens / tokensPerSecond)
}
