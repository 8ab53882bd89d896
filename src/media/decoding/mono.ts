import type { ChannelLayout } from './ffmpeg.ts'

const NATIVE_ORDER = 1
const AMBISONIC_ORDER = 3
const FRONT_CENTRE = 2
/** By the position that a bit of a layout's mask stands for; any other position has the weight of a surround channel. */
const WEIGHTS: Readonly<Record<number, number>> = {
  // The front pair is 3 dB lower, since most of it is in both channels.
  0: Math.SQRT1_2,
  1: Math.SQRT1_2,
  // Speech.
  [FRONT_CENTRE]: 1,
  // Low-frequency effects repeat what the other channels hold, at a higher level.
  3: 0,
  35: 0,
}
const SURROUND = 0.5

/**
 * The share of each channel in the mono mix, as ITU-R BS.775 weighs them. The shares add up to 1, so that the mix is never
 * louder than the loudest channel and nothing is clipped.
 */
export function monoShares({ nbChannels, order, mask }: ChannelLayout): number[] {
  const channels = Array.from({ length: nbChannels }, (_, channel) => channel)
  // The first channel of a sound field is omnidirectional.
  if (order === AMBISONIC_ORDER) return channels.map((channel) => (channel === 0 ? 1 : 0))
  const positions = order === NATIVE_ORDER ? positionsOf(mask) : []
  // Unknown positions weigh the same, as do channels of low frequencies alone.
  const weights = channels.map((channel) => WEIGHTS[positions[channel] ?? FRONT_CENTRE] ?? SURROUND)
  const sum = weights.reduce((total, weight) => total + weight, 0)
  return weights.map((weight) => (sum === 0 ? 1 / nbChannels : weight / sum))
}

function positionsOf(mask: bigint): number[] {
  return Array.from({ length: 64 }, (_, bit) => bit).filter((bit) => ((mask >> BigInt(bit)) & 1n) === 1n)
}
