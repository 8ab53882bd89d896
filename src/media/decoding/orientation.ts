import type { RgbImage } from '../pixels.ts'

/** The transformation that turns stored pixels upright: mirrored along x and y first, then transposed. */
export interface Orientation {
  readonly transposed: boolean
  readonly mirroredX: boolean
  readonly mirroredY: boolean
}

const UPRIGHT: Orientation = { transposed: false, mirroredX: false, mirroredY: false }

/**
 * Reads the 3 x 3 matrix that MP4 and QuickTime store with a track, rounded to a quarter turn. A stored point (x, y) is
 * displayed at (a x + c y, b x + d y), where a and b are the first two numbers, and c and d the fourth and fifth.
 */
export function orientationOf(matrix: Buffer | null): Orientation {
  if (matrix === null || matrix.length < 36) return UPRIGHT
  const [a, b, c, d] = [0, 1, 3, 4].map((index) => matrix.readInt32LE(index * 4)) as [number, number, number, number]
  if (Math.abs(b) > Math.abs(a)) return { transposed: true, mirroredX: b < 0, mirroredY: c < 0 }
  return { transposed: false, mirroredX: a < 0, mirroredY: d < 0 }
}

export function turnUpright(image: RgbImage, { transposed, mirroredX, mirroredY }: Orientation): RgbImage {
  if (!transposed && !mirroredX && !mirroredY) return image
  const { width, height, data } = image
  const out = new Uint8Array(data.length)
  for (let y = 0; y < height; y++) {
    const row = mirroredY ? height - 1 - y : y
    for (let x = 0; x < width; x++) {
      const column = mirroredX ? width - 1 - x : x
      const to = (transposed ? column * height + row : row * width + column) * 3
      const from = (y * width + x) * 3
      out[to] = data[from]!
      out[to + 1] = data[from + 1]!
      out[to + 2] = data[from + 2]!
    }
  }
  return transposed ? { width: height, height: width, data: out } : { width, height, data: out }
}
