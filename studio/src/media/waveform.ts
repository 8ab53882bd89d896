import type { Attachment } from './attachment.ts'
import { decodeSound } from './sound.ts'

const PEAKS = 800
/** Decoded samples of longer sounds would take more memory than the waveform is worth. */
const LONGEST_S = 1200

/** The lowest and the highest sample of equal parts of a sound, as parts of its loudest sample. @throws Error */
export async function peaksOf({ blob, duration }: Attachment): Promise<readonly (readonly [number, number])[]> {
  if (duration > LONGEST_S) throw new Error('The sound is too long to be drawn.')
  const samples = await decodeSound(blob)
  const count = Math.min(PEAKS, samples.length)
  const peaks = Array.from({ length: count }, (_, index): readonly [number, number] => {
    let [low, high] = [0, 0]
    const end = Math.floor(((index + 1) * samples.length) / count)
    for (let i = Math.floor((index * samples.length) / count); i < end; i++) {
      const value = samples[i]!
      if (value < low) low = value
      else if (value > high) high = value
    }
    return [low, high]
  })
  const loudest = peaks.reduce((most, [low, high]) => Math.max(most, -low, high), 0) || 1
  // A line where there is silence.
  return peaks.map(([low, high]) => [Math.min(low / loudest, -0.01), Math.max(high / loudest, 0.01)])
}
