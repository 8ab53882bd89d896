import { wavOf } from './wav.ts'

/** What audio models hear, in samples per second. */
const RATE = 16_000

/** @returns the samples of all channels together, within -1..1. @throws Error when the browser cannot decode it */
export async function decodeSound(blob: Blob): Promise<Float32Array> {
  const context = new OfflineAudioContext(1, 1, RATE)
  const decoded = await context.decodeAudioData(await blob.arrayBuffer())
  const samples = decoded.getChannelData(0)
  for (let channel = 1; channel < decoded.numberOfChannels; channel++) {
    const other = decoded.getChannelData(channel)
    for (let i = 0; i < samples.length; i++) samples[i]! += other[i]!
  }
  if (decoded.numberOfChannels > 1) {
    for (let i = 0; i < samples.length; i++) samples[i]! /= decoded.numberOfChannels
  }
  return samples
}

/** A sound in a format that the server does not take, as WAV. @throws Error when the browser cannot decode it */
export async function toWav(blob: Blob): Promise<Blob> {
  return wavOf(await decodeSound(blob), RATE)
}
