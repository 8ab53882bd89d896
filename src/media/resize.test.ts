import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { gridToPixels, pixelsToGrid } from './coordinates.ts'
import type { RgbImage } from './pixels.ts'
import { imageTokens, resizeBicubic, targetSize } from './resize.ts'

const limits = { pixelsPerToken: 32, minTokens: 36, maxTokens: 64 }

/** The image from which `test/fixtures/pillow-bicubic.json` was made with Pillow. */
function pattern(width: number, height: number): RgbImage {
  const data = new Uint8Array(width * height * 3)
  for (let y = 0, i = 0; y < height; y++)
    for (let x = 0; x < width; x++)
      for (let c = 0; c < 3; c++) data[i++] = (x * x * 7 + y * 13 * (c + 1) + x * y * 3 + c * 91) % 256
  return { width, height, data }
}

describe('resizeBicubic', async () => {
  const file = new URL('../../test/fixtures/pillow-bicubic.json', import.meta.url)
  const cases: { source: [number, number]; target: [number, number]; sha256: string }[] = JSON.parse(
    await readFile(file, 'utf8'),
  )
  it.each(cases)('equals Pillow from $source to $target', ({ source, target, sha256 }) => {
    const image = resizeBicubic(pattern(...source), { width: target[0], height: target[1] })
    expect(createHash('sha256').update(image.data).digest('hex')).toBe(sha256)
  })

  it('leaves an image of the target size unchanged', () => {
    const image = pattern(64, 32)
    expect(resizeBicubic(image, image).data).toBe(image.data)
  })
})

describe('targetSize', () => {
  const side = fc.integer({ min: 1, max: 20_000 })

  it('is the same square for every image when the model takes only squares', () => {
    const square = { pixelsPerToken: 56, minTokens: 256, maxTokens: 256, square: true }
    for (const width of [10, 900, 5000]) {
      expect(targetSize({ width, height: 900 }, square)).toEqual({ width: 896, height: 896 })
    }
  })

  it('is always a multiple of the token size and within the limits', () => {
    fc.assert(
      fc.property(side, side, fc.boolean(), (width, height, roundUp) => {
        const size = targetSize({ width, height }, { ...limits, roundUp })
        expect(size.width % 32).toBe(0)
        expect(size.height % 32).toBe(0)
        expect(imageTokens(size, limits)).toBeLessThanOrEqual(64)
        expect(imageTokens(size, limits)).toBeGreaterThanOrEqual(36)
      }),
      { numRuns: 5000 },
    )
  })

  it.each([
    [256, 256, 256, 256],
    [384, 384, 256, 256],
    [640, 480, 288, 192],
    [100, 100, 192, 192],
    [1, 1, 192, 192],
    [4000, 20, 2048, 32],
    [20, 4000, 32, 2048],
    [63, 1100, 64, 1024],
  ])('%i x %i -> %i x %i', (width, height, targetWidth, targetHeight) => {
    expect(targetSize({ width, height }, limits)).toEqual({ width: targetWidth, height: targetHeight })
  })
})

describe('coordinates', () => {
  it('round-trips to within half a grid step and half a pixel', () => {
    const size = fc.record({ width: fc.integer({ min: 1, max: 10_000 }), height: fc.integer({ min: 1, max: 10_000 }) })
    const unit = fc.double({ min: 0, max: 1, noNaN: true })
    fc.assert(
      fc.property(size, unit, unit, (original, u, v) => {
        const point = { x: u * (original.width - 1), y: v * (original.height - 1) }
        const back = gridToPixels(pixelsToGrid(point, original), original)
        expect(Math.abs(back.x - point.x)).toBeLessThanOrEqual(original.width / 2000 + 0.5 + 1e-9)
        expect(Math.abs(back.y - point.y)).toBeLessThanOrEqual(original.height / 2000 + 0.5 + 1e-9)
      }),
    )
  })

  it('never lies outside the image', () => {
    expect(gridToPixels({ x: 1000, y: 1000 }, { width: 640, height: 480 })).toEqual({ x: 639, y: 479 })
    expect(pixelsToGrid({ x: 9999, y: -5 }, { width: 640, height: 480 })).toEqual({ x: 1000, y: 0 })
  })
})
