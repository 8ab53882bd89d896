import type { DecodeResult } from './process/protocol.ts'

/** The memory that decoded media takes, in bytes. */
export function decodedBytes(result: DecodeResult): number {
  if ('pages' in result) return result.texts.reduce((sum, { length }) => sum + 2 * length, 0)
  if ('image' in result)
    return [result.image, ...(result.cuts ?? [])].reduce((sum, { data }) => sum + data.byteLength, 0)
  if ('samples' in result) return result.samples.byteLength
  const frames = result.frames.reduce((sum, { image }) => sum + image.data.byteLength, 0)
  return frames + (result.sound?.samples.byteLength ?? 0)
}
