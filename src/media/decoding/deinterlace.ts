import type { FFmpeg, Frame } from './ffmpeg.ts'

/** For samples of 8 bits. A codec's noise is less, and motion makes a larger difference. */
const LEAST_COMB = 10

/**
 * Removes the combs at moving edges in frames of two fields, which were taken one after the other: a sample that
 * differs from both the line above and the line below belongs to the other field's moment. All other samples remain, so
 * that still parts keep their detail.
 */
export function deinterlace(ffmpeg: FFmpeg, frame: Frame): void {
  const bits = bitsOf(ffmpeg.avGetPixFmtName(frame.format) ?? '')
  // The codec may still need its own copy.
  if (bits === null || frame.makeWritable() < 0) return
  for (const [index, plane] of (frame.data ?? []).entries()) {
    const stride = frame.linesize[index]!
    if (bits === 8) smooth(plane, stride, LEAST_COMB)
    else
      smooth(new Uint16Array(plane.buffer, plane.byteOffset, plane.length >> 1), stride >> 1, LEAST_COMB << (bits - 8))
  }
}

/** Bits of a sample, for planar formats; null for others, which codecs of interlaced video do not use. */
function bitsOf(name: string): number | null {
  const depth = /^(?:yuva?|gray)(?:j?\d\d\dp)?(\d+)?(?:le)?$/.exec(name)
  return depth === null ? null : Number(depth[1] ?? 8)
}

function smooth(plane: Uint8Array | Uint16Array, stride: number, least: number): void {
  for (let at = stride; at + stride <= plane.length; at += 2 * stride) {
    const below = at + 2 * stride <= plane.length ? stride : -stride
    for (let end = at + stride, i = at; i < end; i++) {
      const own = plane[i]!
      const above = plane[i - stride]!
      const next = plane[i + below]!
      if (own > Math.max(above, next) + least || own < Math.min(above, next) - least) plane[i] = (above + next + 1) >> 1
    }
  }
}
