import sharp from 'sharp'
import { afterEach, expect, it } from 'vitest'
import { ImageDecoder } from './image-decoder.ts'

const limits = { pixelsPerToken: 32, minTokens: 36, maxTokens: 64 }
const never = new AbortController().signal
const small = () =>
  sharp({ create: { width: 64, height: 64, channels: 3, background: '#ff0000' } })
    .png()
    .toBuffer()
/** Takes the decoder long enough to be caught in the act. */
const large = () =>
  sharp({ create: { width: 9000, height: 9000, channels: 3, background: '#00ff00' } })
    .png({ compressionLevel: 1 })
    .toBuffer()

let decoder: ImageDecoder

afterEach(() => decoder.close())

function killDecoderProcess(): void {
  process.kill(decoder.pid!, 'SIGKILL')
}

it('a picture that takes the process down gets a 400, and the next one is decoded', async () => {
  decoder = new ImageDecoder()
  const doomed = decoder.decode(await large(), limits, 'messages[0]', never)
  setTimeout(killDecoderProcess, 150)
  await expect(doomed).rejects.toMatchObject({ status: 400, param: 'messages[0]' })
  const { original } = await decoder.decode(await small(), limits, 'p', never)
  expect(original).toEqual({ width: 64, height: 64 })
})

it('neighbours of a crash are decoded again', async () => {
  decoder = new ImageDecoder()
  const [big, little] = [await large(), await small()]
  const jobs = [big, big, little].map((bytes) => decoder.decode(bytes, limits, 'p', never))
  setTimeout(killDecoderProcess, 150)
  const sizes = (await Promise.all(jobs)).map(({ original }) => original.width)
  expect(sizes).toEqual([9000, 9000, 64])
})

it('closing fails what waits', async () => {
  decoder = new ImageDecoder()
  const waiting = decoder.decode(await large(), limits, 'p', never)
  const failed = expect(waiting).rejects.toThrow('closed')
  await decoder.close()
  await failed
})
