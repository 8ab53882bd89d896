/**
 * Serves RTSP cameras of 25 frames per second, for a benchmark that does not count what they cost. It is told by its argument
 * how many of each kind, and tells their addresses; to each message it answers how many frames it has sent.
 */
import sharp from 'sharp'
import type { RgbImage } from '../../src/media/pixels.ts'
import { type CameraVideo, encodeCameraVideo } from '../../test/support/camera-video.ts'
import { COLOURS, SHAPES } from '../../test/support/drawn-shapes.ts'
import { RtspCamera } from '../../test/support/rtsp-camera.ts'
import { CAMERA_FPS, type CameraAddresses, type CameraCounts, type CameraKind } from './camera-kinds.ts'

const CLOCK = 90_000
const FULL = { width: 1920, height: 1080 }
/** A loop that is no whole number of seconds: looks that are a second apart see all of its frames. */
const MOVING_FRAMES = 47
/** How far the noisy ground moves with each frame. */
const STEP = 4
const NOISE = { type: 'gaussian', mean: 200, sigma: 3 } as const
/** At the encoder's 10 frames per second; the cameras send 25, so the stream has 2.5 times as much. */
const BITS_PER_SECOND = '1600000'

let sent = 0

async function videoOf(kind: CameraKind): Promise<CameraVideo> {
  if (kind === 'moving') {
    const ground = await noise(FULL.width + STEP * MOVING_FRAMES)
    const frames: RgbImage[] = []
    for (let frame = 0; frame < MOVING_FRAMES; frame++) frames.push(await drawn(ground, frame, true))
    return encode(frames, MOVING_FRAMES)
  }
  const ground = await noise(FULL.width)
  const [without, withCircle] = [await drawn(ground, 0, false), await drawn(ground, 0, true)]
  const second = (image: RgbImage) => Array.from({ length: CAMERA_FPS }, () => image)
  return encode(kind === 'still' ? second(without) : [...second(without), ...second(withCircle)], CAMERA_FPS)
}

function encode(frames: readonly RgbImage[], interval: number): CameraVideo {
  return encodeCameraVideo({ codec: 'h264', frames, interval, options: { b: BITS_PER_SECOND } })
}

function noise(width: number): Promise<Buffer> {
  const create = { width, height: FULL.height, channels: 3, background: 'white', noise: NOISE } as const
  return sharp({ create }).png({ compressionLevel: 1 }).toBuffer()
}

async function drawn(ground: Buffer, frame: number, hasCircle: boolean): Promise<RgbImage> {
  const { width, height } = FULL
  const y = height / 2 + (height / 6) * Math.sin(frame / 4)
  const shape = hasCircle
    ? `<g transform="translate(${width / 3} ${y}) scale(4)" fill="${COLOURS.red}">${SHAPES.circle}</g>`
    : ''
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}">${shape}</svg>`
  const area = { left: STEP * frame, top: 0, ...FULL }
  const data = await sharp(await sharp(ground).extract(area).removeAlpha().png({ compressionLevel: 0 }).toBuffer())
    .composite([{ input: Buffer.from(svg) }])
    .removeAlpha()
    .raw()
    .toBuffer()
  return { ...FULL, data }
}

const counts = JSON.parse(process.argv[2]!) as CameraCounts
const urls: Record<CameraKind, string[]> = { moving: [], still: [], flips: [] }
const rates: Partial<Record<CameraKind, number>> = {}
for (const kind of ['moving', 'still', 'flips'] as const) {
  const count = counts[kind] ?? 0
  if (count === 0) continue
  const video = await videoOf(kind)
  const bytes = video.units.reduce((sum, { length }) => sum + length, 0)
  rates[kind] = (8 * bytes * CAMERA_FPS) / video.units.length / 1e6
  for (let n = 0; n < count; n++) {
    const timestampOf = (unit: number) => {
      sent++
      return Math.round((unit * CLOCK) / CAMERA_FPS)
    }
    urls[kind].push((await RtspCamera.start(video, { fps: CAMERA_FPS, timestampOf })).url)
  }
}
process.on('message', () => process.send!(sent))
process.on('disconnect', () => process.exit())
process.send!({ urls, rates } satisfies CameraAddresses)
