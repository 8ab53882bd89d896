import { randomBytes } from 'node:crypto'
import sharp from 'sharp'
import { beforeAll, describe, expect, it } from 'vitest'
import {
  type CameraVideo,
  decodeCameraVideo,
  encodeCameraVideo,
  plainImage,
  splitNals,
} from '../../../../test/support/camera-video.ts'
import { HlsCamera } from '../../../../test/support/hls-camera.ts'
import { HttpCamera } from '../../../../test/support/http-camera.ts'
import { RtspCamera } from '../../../../test/support/rtsp-camera.ts'
import { watchCamera } from '../../../../test/support/watch-camera.ts'
import { Login } from './protocols/digest.ts'

const RED = [200, 30, 30] as const
const BLUE = [30, 30, 200] as const
const LOGIN = { username: 'viewer', password: 's:cr"et\\' }
const videos: Record<'h264' | 'h265' | 'small', CameraVideo> = {} as never

function noisy(width: number, height: number, colour: readonly [number, number, number], seed: number) {
  const image = plainImage(width, height, colour)
  image.data.forEach((value, i) => {
    image.data[i] = value + ((i * 7919 + seed * 104_729) % 23)
  })
  return image
}

beforeAll(() => {
  const frames = Array.from({ length: 12 }, (_, i) => noisy(96, 64, RED, i))
  videos.h264 = encodeCameraVideo({ codec: 'h264', frames })
  videos.h265 = encodeCameraVideo({ codec: 'h265', frames })
  videos.small = encodeCameraVideo({ codec: 'h264', frames: frames.slice(6).map(() => plainImage(64, 48, BLUE)) })
})

/** What a decoder sees: sizes and mean colours. */
function seen(codec: 'h264' | 'h265', units: readonly { data: Uint8Array }[]) {
  return decodeCameraVideo(
    codec,
    units.map(({ data }) => data),
  ).map(({ width, height, data }) => {
    const mean = [0, 1, 2].map(
      (channel) => data.reduce((sum, v, i) => sum + (i % 3 === channel ? v : 0), 0) / (width * height),
    )
    return `${width}x${height} ${mean[0]! > 120 && mean[2]! < 90 ? 'red' : mean[2]! > 120 && mean[0]! < 90 ? 'blue' : mean}`
  })
}

describe.each(['h264', 'h265'] as const)('%s over RTSP', (codec) => {
  it('gives the frames that the camera encoded', async () => {
    await using camera = await RtspCamera.start(videos[codec], { fps: 0, packetSize: 300 })
    const { units } = await watchCamera(camera.url, { count: 11 })
    expect(units.map(({ data }) => Buffer.from(data))).toEqual(videos[codec].units.slice(0, 11))
    expect(units.map(({ isKey }) => isKey)).toEqual(units.map((_, i) => i % 5 === 0))
    expect(units.map(({ mediaTime }) => mediaTime)).toEqual(units.map((_, i) => i * 100))
    expect(new Set(seen(codec, units))).toEqual(new Set(['96x64 red']))
    expect(seen(codec, units)).toHaveLength(11)
  })

  it('is decoded with parameter sets that only the description has', async () => {
    await using camera = await RtspCamera.start(videos[codec], { fps: 0, setsInSdpOnly: true })
    const { units } = await watchCamera(camera.url, { count: 11 })
    expect(seen(codec, units.slice(5))).toHaveLength(6)
  })

  it('ends pictures without markers, and with too many', async () => {
    for (const marks of ['none', 'all'] as const) {
      const options = { preset: 'ultrafast', slices: '3' }
      const frames = Array.from({ length: 12 }, (_, i) => noisy(96, 64, RED, i))
      const video = codec === 'h264' ? encodeCameraVideo({ codec, frames, options }) : videos.h265
      await using camera = await RtspCamera.start(video, { fps: 0, marks })
      const { units } = await watchCamera(camera.url, { count: 8 })
      expect(units.slice(2).map(({ data }) => video.units.findIndex((unit) => unit.equals(data)))).toEqual(
        units.slice(2).map((_, i) => i + 2),
      )
    }
  })

  it('tells losses, and gives no damaged unit', async () => {
    await using camera = await RtspCamera.start(videos[codec], { fps: 100, packetSize: 200, loses: 37 })
    const { units } = await watchCamera(camera.url, { count: 40 })
    expect(units.filter(({ afterLoss }) => afterLoss).length).toBeGreaterThan(2)
    // A picture whose parameter sets are lost takes those of an earlier one.
    const pictureOf = (data: Uint8Array) => splitNals(data).at(-1)!.toString('hex')
    const sent = videos[codec].units.map(pictureOf)
    const places = units.map(({ data }) => sent.indexOf(pictureOf(data)))
    expect(places).not.toContain(-1)
    const follows = (i: number) => (places[i - 1]! + 1) % sent.length === places[i]
    for (const [i, { afterLoss }] of units.entries()) if (i > 0 && !afterLoss) expect(follows(i)).toBe(true)
  })
})

describe('RTSP', () => {
  it('follows a camera that changes its size', async () => {
    await using camera = await RtspCamera.start(videos.h264, { fps: 100 })
    const { units } = await watchCamera(camera.url, {
      count: 24,
      onUnit: ({ isKey }) => {
        if (isKey) camera.behaviour.video = videos.small
      },
    })
    expect(new Set(seen('h264', units.slice(1)))).toContain('64x48 blue')
  })

  it('outlives a camera that changes its codec', async () => {
    const timestampOf = (unit: number) => {
      camera.behaviour.video = unit > 5 && unit < 15 ? videos.h265 : videos.h264
      return unit * 900
    }
    await using camera = await RtspCamera.start(videos.h264, { fps: 100, timestampOf })
    const { units } = await watchCamera(camera.url, { count: 30 })
    expect(seen('h264', units.slice(-10)).at(-1)).toBe('96x64 red')
  })

  it.each(['MD5', 'SHA-256', 'MD5-sess'] as const)(
    'logs in by Digest with %s, also when nonces run out',
    async (algorithm) => {
      for (const saysStale of [true, false]) {
        const login = { scheme: 'digest', algorithm, nonceUses: 2, saysStale, ...LOGIN } as const
        await using camera = await RtspCamera.start(videos.h264, { fps: 0, login })
        const { units } = await watchCamera(camera.url, { count: 3, login: new Login(LOGIN.username, LOGIN.password) })
        expect(units).toHaveLength(3)
        expect(camera.requests.filter((head) => head.includes('Basic'))).toEqual([])
      }
    },
  )

  it('logs in by Basic only when asked', async () => {
    await using camera = await RtspCamera.start(videos.h264, { fps: 0, login: { scheme: 'basic', ...LOGIN } })
    await watchCamera(camera.url, { count: 3, login: new Login(LOGIN.username, LOGIN.password) })
    expect(camera.requests.map((head) => head.includes('Authorization: Basic'))).toEqual([
      false,
      true,
      true,
      true,
      true,
    ])
  })

  it('gives up a wrong password, which no message has', async () => {
    await using camera = await RtspCamera.start(videos.h264, { login: { scheme: 'digest', ...LOGIN } })
    const login = new Login(LOGIN.username, 'wr0ng')
    const { error } = await watchCamera(camera.url, { login })
    expect(error).toMatchObject({ reason: 'unauthorized', message: 'The camera refuses the user name or the password' })
    expect(camera.requests).toHaveLength(2)
    expect(camera.requests.join()).not.toContain('wr0ng')
    const { error: none } = await watchCamera(camera.url)
    expect(none).toMatchObject({ reason: 'unauthorized' })
    camera.behaviour.login!.password = 'wr0ng'
    expect((await watchCamera(camera.url, { count: 3, login: new Login(LOGIN.username, 'wr0ng') })).units).toHaveLength(
      3,
    )
  })

  it.each([
    ['a redirect', { redirect: 'rtsp://169.254.169.254/' }, 'refused'],
    ['an endless description', { isEndless: true }, 'protocol'],
    ['no video', { sdp: 'v=0\r\nm=audio 0 RTP/AVP 8\r\n' }, 'no_video'],
    ['another codec', { sdp: 'v=0\r\nm=video 0 RTP/AVP 96\r\na=rtpmap:96 VP8/90000\r\n' }, 'unsupported_codec'],
    ['too many tracks', { sdp: `v=0\r\n${'m=video 0 RTP/AVP 96\r\n'.repeat(33)}` }, 'protocol'],
    ['endless garbage', { fps: 100, garbage: Buffer.alloc(30_000), loses: 1 }, 'protocol'],
  ] as const)('refuses %s', async (_, behaviour, reason) => {
    await using camera = await RtspCamera.start(videos.h264, behaviour)
    expect((await watchCamera(camera.url)).error).toMatchObject({ reason })
  })

  it('finds the next packet after garbage', async () => {
    await using camera = await RtspCamera.start(videos.h264, { fps: 0, garbage: Buffer.from('\0$\u0001garbage') })
    const { units } = await watchCamera(camera.url, { count: 8 })
    for (const { data } of units) expect(videos.h264.units.some((unit) => unit.equals(data))).toBe(true)
  })

  it.each([
    ['wraps', (unit: number) => 2 ** 32 - 18_000 + unit * 9000, (i: number) => i * 100],
    ['stands still', () => 5, () => 0],
    ['jumps back', (unit: number) => (unit < 3 ? 10 ** 9 : 0) + unit * 9000, (i: number) => (i < 3 ? i : i - 1) * 100],
  ])('gives units of a clock that %s', async (_, timestampOf, expected) => {
    await using camera = await RtspCamera.start(videos.h264, { fps: 0, timestampOf })
    const { units } = await watchCamera(camera.url, { count: 8 })
    expect(units.map(({ mediaTime }) => mediaTime)).toEqual(units.map((_, i) => expected(i)))
    expect(units.map(({ data }) => Buffer.from(data))).toEqual(videos.h264.units.slice(0, 8))
  })

  it('tells the time that the camera believes', async () => {
    const year = -365 * 86_400_000
    await using camera = await RtspCamera.start(videos.h264, { fps: 0, clockOffset: year })
    const from = Date.now()
    const { units } = await watchCamera(camera.url, { count: 8 })
    for (const { cameraTime } of units) {
      expect(cameraTime!.getTime() - year).toBeGreaterThan(from - 2)
      expect(cameraTime!.getTime() - year).toBeLessThan(Date.now() + 2)
    }
  })

  it('takes frames of 64 KiB, and a backlog at once', async () => {
    const frames = Array.from({ length: 3 }, () => {
      const image = plainImage(640, 480, RED)
      image.data.set(randomBytes(image.data.length))
      return image
    })
    const video = encodeCameraVideo({ codec: 'h264', frames, options: { qp: '10' } })
    expect(video.units[0]!.length).toBeGreaterThan(150_000)
    await using camera = await RtspCamera.start(video, { fps: 50, packetSize: 65_000, hangs: false })
    const { units } = await watchCamera(camera.url, {
      count: 30,
      onUnit: (_, session) => {
        camera.behaviour.hangs = true
        setTimeout(() => {
          camera.behaviour.hangs = false
        }, 100)
        session.tick(0)
      },
    })
    for (const { data } of units) expect(video.units.some((unit) => unit.equals(data))).toBe(true)
  })

  it('keeps the session alive, and says goodbye', async () => {
    await using camera = await RtspCamera.start(videos.h264, { fps: 50, sessionTimeout: 10 })
    let now = 0
    await watchCamera(camera.url, { count: 20, onUnit: (_, session) => session.tick(++now * 1000) })
    await expect.poll(() => camera.requests.at(-1)).toMatch(/^TEARDOWN .*\r\n.*\r\n.*\r\nSession: 1234/)
    const methods = camera.requests.map((head) => head.split(' ')[0])
    expect(methods.slice(0, 4)).toEqual(['OPTIONS', 'DESCRIBE', 'SETUP', 'PLAY'])
    expect(methods.filter((method) => method === 'GET_PARAMETER')).toHaveLength(3)
    expect(camera.requests[2]).toMatch(/^SETUP rtsp:\S+\/live\/track2 /)
  })

  it('tells a connection that was closed', async () => {
    await using camera = await RtspCamera.start(videos.h264, { fps: 50 })
    const { error } = await watchCamera(camera.url, { onUnit: () => camera.end() })
    expect(error).toMatchObject({ reason: 'protocol', message: 'The camera has closed the connection' })
  })
})

describe.each(['mpegts', 'fmp4'] as const)('HLS of %s', (format) => {
  it('gives frames one after the other, at the speed of the stream', async () => {
    await using camera = await HlsCamera.start(videos.h264, format)
    const times: number[] = []
    const onUnit = () => times.push(performance.now())
    const { units } = await watchCamera(camera.url, { type: 'hls', count: 20, onUnit })
    expect(seen('h264', units)).toHaveLength(20)
    const distances = units.slice(1).map(({ mediaTime }, i) => Math.round(mediaTime! - units[i]!.mediaTime!))
    // A segment may be late, and the first of its frames with it.
    expect(distances.filter((distance, i) => distance !== 100 && !units[i + 1]!.isKey)).toEqual([])
    for (const [i, { mediaTime }] of units.entries()) expect(times[i]! - times[0]!).toBeGreaterThan(mediaTime! - 90)
    const sets = (data: Uint8Array) => splitNals(data).filter((nal) => [7, 8].includes(nal[0]! & 31)).length
    for (const { data, isKey } of units) expect(sets(data)).toBe(isKey ? 2 : 0)
  })
})

describe('HTTP', () => {
  const pictures: Buffer[] = []
  beforeAll(async () => {
    for (const r of [50, 100, 150, 200]) {
      const create = { width: 64, height: 48, channels: 3, background: { r, g: 0, b: 0 } } as const
      pictures.push(await sharp({ create }).jpeg().toBuffer())
    }
  })

  it.each([
    ['frame', '--frame'],
    ['"frame"', '--frame'],
    ['--frame', '--frame'],
    ['--frame', '----frame'],
    ['frame', 'frame'],
    ['', '--any'],
  ])('reads a stream with the boundary %s, written %s', async (boundary, delimiter) => {
    for (const hasLengths of [true, false]) {
      for (const closes of [true, false]) {
        await using camera = await HttpCamera.start(pictures, { fps: 0, boundary, delimiter, hasLengths, closes })
        const { units } = await watchCamera(camera.url('/stream'), { type: 'mjpeg', count: 4 })
        expect(units.map(({ data }) => Buffer.from(data).subarray(0, data.lastIndexOf(0xd9) + 1))).toEqual(pictures)
      }
    }
  })

  it.each(['digest', 'basic'] as const)('logs in by %s for streams and pictures', async (scheme) => {
    for (const closes of [true, false]) {
      await using camera = await HttpCamera.start(pictures, {
        login: { scheme, ...LOGIN, nonceUses: 2 },
        closes,
        fps: 50,
      })
      for (const [path, type] of [
        ['/stream', 'mjpeg'],
        ['/shot.jpg?size=1', 'jpeg'],
      ] as const) {
        const login = new Login(LOGIN.username, LOGIN.password)
        const { units } = await watchCamera(camera.url(path), { type, count: 4, login })
        expect(units).toHaveLength(4)
      }
      const { error } = await watchCamera(camera.url('/stream'), { type: 'mjpeg', login: new Login('viewer', 'wrong') })
      expect(error).toMatchObject({ reason: 'unauthorized' })
    }
  })

  it('refuses redirects, and what is no stream and no picture', async () => {
    await using camera = await HttpCamera.start([Buffer.from('<html>')])
    expect((await watchCamera(camera.url('/'), { type: 'jpeg' })).error).toMatchObject({ reason: 'no_video' })
    expect((await watchCamera(camera.url('/'), { type: 'mjpeg' })).error).toMatchObject({ reason: 'no_video' })
    camera.behaviour.redirect = 'http://169.254.169.254/'
    expect((await watchCamera(camera.url('/'), { type: 'jpeg' })).error).toMatchObject({ reason: 'refused' })
  })

  it('follows redirects of the camera to itself', async () => {
    for (const closes of [true, false]) {
      await using camera = await HttpCamera.start(pictures, { redirect: '/shot.jpg?size=1', closes })
      expect((await watchCamera(camera.url('/'), { type: 'jpeg', count: 3 })).units).toHaveLength(3)
      camera.behaviour.redirect = '/stream'
      expect((await watchCamera(camera.url('/'), { type: 'mjpeg', count: 3 })).units).toHaveLength(3)
    }
  })

  it('takes the time of a picture from its response', async () => {
    await using camera = await HttpCamera.start(pictures)
    const { units } = await watchCamera(camera.url('/'), { type: 'jpeg', count: 2 })
    expect(Math.abs(units[0]!.cameraTime!.getTime() - Date.now())).toBeLessThan(60_000)
    expect(units.map(({ data }) => Buffer.from(data))).toEqual(pictures.slice(0, 2))
  })
})
