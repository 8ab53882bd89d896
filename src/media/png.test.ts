import fc from 'fast-check'
import sharp from 'sharp'
import { expect, test } from 'vitest'
import { encodePng } from './png.ts'

test('any pixels are read back as they were', async () => {
  const side = fc.integer({ min: 1, max: 40 })
  const picture = fc.record({ width: side, height: side, isFlat: fc.boolean(), seed: fc.nat() })
  await fc.assert(
    fc.asyncProperty(picture, async ({ width, height, isFlat, seed }) => {
      const data = Uint8Array.from({ length: width * height * 3 }, (_, at) =>
        isFlat ? seed : Math.imul(at + seed, 2654435761) >>> 13,
      )
      const { data: read, info } = await sharp(await encodePng({ width, height, data }))
        .raw()
        .toBuffer({ resolveWithObject: true })
      expect(info).toMatchObject({ width, height, channels: 3 })
      expect(Buffer.from(data).equals(read)).toBe(true)
    }),
    { numRuns: 50 },
  )
})

test('a drawing is compressed, and noise grows by no more than the format takes', async () => {
  const size = { width: 300, height: 200 }
  const flat = await encodePng({ ...size, data: new Uint8Array(300 * 200 * 3).fill(90) })
  expect(flat.length).toBeLessThan(5_000)
  const noise = await encodePng({ ...size, data: noiseOf(300 * 200 * 3) })
  expect(noise.length).toBeLessThan(300 * 200 * 3 + 1_000)
})

function noiseOf(length: number): Uint8Array {
  const data = new Uint8Array(length)
  for (let at = 0; at < length; at += 65_536) crypto.getRandomValues(data.subarray(at, at + 65_536))
  return data
}
