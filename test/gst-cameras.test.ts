import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import sharp from 'sharp'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Login } from '../src/media/live/process/protocols/digest.ts'
import { decodeCameraVideo } from './support/camera-video.ts'
import { CERTIFICATE_FILE } from './support/secure-camera.ts'
import { watchCamera } from './support/watch-camera.ts'

/** Debian's has GStreamer; another may come first in the path. */
const PYTHONS = ['/usr/bin/python3', 'python3']
const USER = 'viewer'
const PASSWORD = 'secret'

let server: ChildProcess
type Cameras = { port: number; securePort: number; hlsPort?: number; names: string[] }
let cameras: Cameras | null = null
let folder: string

/** @returns the first line that it prints, or null when it ends before */
function startCameras(python: string): Promise<string | null> {
  server = spawn(python, ['test/support/gst_cameras.py', USER, PASSWORD, CERTIFICATE_FILE, folder], {
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  return new Promise((resolve) => {
    server.on('error', () => resolve(null))
    server.on('exit', () => resolve(null))
    server.stdout!.once('data', (line) => resolve(String(line)))
  })
}

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'lookout-gst-'))
  for (const python of PYTHONS) {
    const line = await startCameras(python)
    if (line === null) continue
    cameras = JSON.parse(line)
    return
  }
  console.log(
    "SKIPPED: cameras of GStreamer need Debian's gir1.2-gst-rtsp-server-1.0, python3-gst-1.0 and gstreamer1.0-plugins-{base,good,bad,ugly}",
  )
})

afterAll(async () => {
  server.kill('SIGKILL')
  await rm(folder, { recursive: true, force: true, maxRetries: 3 })
})

describe("GStreamer's RTSP server", () => {
  it.for(['h264', 'h265'] as const)('delivers %s, beside a sound, after a login by Digest', async (codec, { skip }) => {
    if (!cameras?.names.includes(codec)) return skip()
    const login = new Login(USER, PASSWORD)
    const { units, error } = await watchCamera(`rtsp://127.0.0.1:${cameras.port}/${codec}`, { login, count: 15 })
    expect(error).toBeNull()
    const images = decodeCameraVideo(
      codec,
      units.map(({ data }) => data),
    )
    expect(images).toHaveLength(15)
    for (const { width, height, data } of images) {
      expect([width, height]).toEqual([320, 240])
      expect(data[0]).toBeGreaterThan(220)
      expect(data[1]).toBeLessThan(30)
    }
    expect(units[0]!.isKey).toBe(true)
    // One that is late may leave pictures out.
    const distances = units.slice(1).map(({ mediaTime }, i) => mediaTime! - units[i]!.mediaTime!)
    for (const distance of distances) expect(distance).toBeGreaterThan(40)
  })

  it('delivers video over TLS, and as HLS', async ({ skip }) => {
    if (!cameras?.names.includes('h264')) return skip()
    const { securePort, hlsPort } = cameras
    const login = new Login(USER, PASSWORD)
    const overTls = await watchCamera(`rtsps://127.0.0.1:${securePort}/h264`, { login, count: 15 })
    expect([overTls.error, overTls.units.length]).toEqual([null, 15])
    if (hlsPort === undefined) return
    const url = `http://127.0.0.1:${hlsPort}/live.m3u8`
    // Once the first segment is written.
    await expect.poll(async () => (await fetch(url)).status, { interval: 50 }).toBe(200)
    const { units, error } = await watchCamera(url, { type: 'hls', count: 50 })
    expect(error).toBeNull()
    const images = decodeCameraVideo(
      'h264',
      units.map(({ data }) => data),
    )
    expect([images.length, images[0]!.width, images[0]!.height]).toEqual([50, 320, 240])
  })

  it('delivers JPEG over RTP', async ({ skip }) => {
    if (!cameras?.names.includes('jpeg')) return skip()
    const login = new Login(USER, PASSWORD)
    const { units } = await watchCamera(`rtsp://127.0.0.1:${cameras.port}/jpeg`, { login, count: 5 })
    for (const { data } of units) {
      const { data: pixels, info } = await sharp(data, { failOn: 'warning' })
        .raw()
        .toBuffer({ resolveWithObject: true })
      expect([info.width, info.height]).toEqual([320, 240])
      expect(pixels[0]).toBeGreaterThan(220)
      expect(pixels[1]).toBeLessThan(30)
    }
  })

  it('refuses a wrong password', async ({ skip }) => {
    if (cameras === null) return skip()
    const { error } = await watchCamera(`rtsp://127.0.0.1:${cameras.port}/h264`, { login: new Login(USER, 'wrong') })
    expect(error).toMatchObject({ reason: 'unauthorized' })
  })
})
