import { once } from 'node:events'
import { createServer, type RequestListener, type Server, type ServerResponse } from 'node:http'
import { type AddressInfo, createServer as createTcpServer } from 'node:net'
import { Readable } from 'node:stream'
import { crc32, deflateSync } from 'node:zlib'
import sharp from 'sharp'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { makeVideo } from '../../test/support/video.ts'
import { ApiError } from '../lib/errors/errors.ts'
import { isPublic } from './fetching/guarded-fetch.ts'
import { MediaLoader } from './media-loader.ts'

const limits = { pixelsPerToken: 32, minTokens: 36, maxTokens: 64 }
const never = new AbortController().signal

let server: Server
let origin: string
let loader: MediaLoader
let routes: Record<string, RequestListener> = {}

beforeAll(async () => {
  server = createServer((request, response) => {
    const route = routes[request.url ?? '']
    if (route) route(request, response)
    else response.writeHead(404).end()
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  loader = new MediaLoader({ allowedHosts: [new URL(origin).host] })
})

afterAll(async () => {
  await loader.close()
  server.closeAllConnections()
  server.close()
})

function plainImage(width: number, height: number, background = { r: 200, g: 30, b: 30 }) {
  return sharp({ create: { width, height, channels: 3, background } })
}

const dataUrl = (bytes: Uint8Array, type = 'image/png') =>
  `data:${type};base64,${Buffer.from(bytes).toString('base64')}`
const load = (url: string, signal = never) =>
  loader.open('org', signal).image({ reference: { type: 'url', url }, param: 'the.param', signal }, limits)

async function refusal(url: string): Promise<ApiError> {
  const error = await load(url).then(
    () => null,
    (reason: unknown) => reason,
  )
  expect(error).toBeInstanceOf(ApiError)
  expect(error).toMatchObject({ status: 400, type: 'invalid_request_error', param: 'the.param' })
  return error as ApiError
}

describe('supported images', () => {
  const formats: [string, () => Promise<Buffer>][] = [
    ['PNG', () => plainImage(300, 200).png().toBuffer()],
    ['JPEG', () => plainImage(300, 200).jpeg().toBuffer()],
    ['WebP', () => plainImage(300, 200).webp().toBuffer()],
    ['CMYK JPEG', () => plainImage(300, 200).toColourspace('cmyk').jpeg().toBuffer()],
    ['16-bit PNG', () => plainImage(300, 200).toColourspace('rgb16').png().toBuffer()],
    ['palette PNG', () => plainImage(300, 200).png({ palette: true }).toBuffer()],
  ]
  it.each(formats)('%s keeps its colour and size', async (_name, make) => {
    const { image, original } = await load(dataUrl(await make()))
    expect(original).toEqual({ width: 300, height: 200 })
    expect(image.data.length).toBe(image.width * image.height * 3)
    const [red, green, blue] = image.data.subarray((image.data.length / 2) | 0).subarray(0, 3)
    expect(red! + green! + blue!).toBeGreaterThan(200)
    expect(Math.max(red!, green!, blue!)).toBeGreaterThan(150)
  })

  it('converts greyscale to RGB', async () => {
    const { image } = await load(
      dataUrl(await plainImage(64, 64, { r: 90, g: 90, b: 90 }).greyscale().png().toBuffer()),
    )
    expect(new Set(image.data).size).toBe(1)
  })

  it('puts transparency on white', async () => {
    const clear = sharp({ create: { width: 64, height: 64, channels: 4, background: { r: 0, g: 0, b: 0, alpha: 0 } } })
    const { image } = await load(dataUrl(await clear.png().toBuffer()))
    expect(image.data.every((value) => value === 255)).toBe(true)
  })

  it('applies the EXIF orientation', async () => {
    // Stored sideways with the left half red. Upright, red is at the top.
    const left = await plainImage(100, 120).png().toBuffer()
    const lying = await plainImage(200, 120, { r: 0, g: 0, b: 250 })
      .composite([{ input: left, left: 0, top: 0 }])
      .withMetadata({ orientation: 6 })
      .jpeg()
      .toBuffer()
    const { image, original } = await load(dataUrl(lying))
    expect(original).toEqual({ width: 120, height: 200 })
    expect(image.data[0]).toBeGreaterThan(150)
    expect(image.data.at(-1)).toBeGreaterThan(150)
  })

  it.each([1, 2, 3, 4, 5, 6, 7, 8])('turns EXIF orientation %i upright', async (orientation) => {
    // Four corners of different colours, 256 x 192 upright, so that nothing is resampled.
    const corners = ['#e01010', '#10e010', '#1010e0', '#e0e010'].map((background, i) => ({
      input: { create: { width: 128, height: 96, channels: 3 as const, background } },
      left: (i % 2) * 128,
      top: i > 1 ? 96 : 0,
    }))
    const upright = await plainImage(256, 192).composite(corners).png().toBuffer()
    const { image, original } = await load(dataUrl(await lying(upright, orientation)))
    expect(original).toEqual({ width: 256, height: 192 })
    const at = (x: number, y: number) => [
      ...image.data.subarray((y * image.width + x) * 3, (y * image.width + x) * 3 + 3),
    ]
    const [right, bottom] = [image.width - 10, image.height - 10]
    const seen = [at(10, 10), at(right, 10), at(10, bottom), at(right, bottom)]
    const wanted = [
      [224, 16, 16],
      [16, 224, 16],
      [16, 16, 224],
      [224, 224, 16],
    ]
    for (const [i, colour] of seen.entries()) {
      for (const [channel, value] of colour.entries()) expect(Math.abs(value - wanted[i]![channel]!)).toBeLessThan(12)
    }
  })

  it('does not resample an image of exactly the target size', async () => {
    const noise = Buffer.from(Array.from({ length: 256 * 256 * 3 }, (_, i) => (i * 7919) % 251))
    const png = await sharp(noise, { raw: { width: 256, height: 256, channels: 3 } })
      .png()
      .toBuffer()
    const { image } = await load(dataUrl(png))
    expect(Buffer.from(image.data).equals(noise)).toBe(true)
  })

  it.each([
    [1, 1],
    [1, 3000],
    [5000, 3],
    [6000, 5000],
  ])('%i x %i', async (width, height) => {
    const { image, original } = await load(dataUrl(await plainImage(width, height).png().toBuffer()))
    expect(original).toEqual({ width, height })
    expect((image.width * image.height) / 1024).toBeLessThanOrEqual(64)
  })

  it('ignores the declared type and the spelling of the URL', async () => {
    const base64 = (await plainImage(40, 40).png().toBuffer()).toString('base64')
    const broken = base64.replace(/.{60}/g, '$&\r\n')
    const urlSafe = base64.replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, '')
    for (const url of [
      `data:image/jpeg;base64,${base64}`,
      `  DATA:image/png;charset=utf-8;BASE64,${broken}`,
      `data:application/octet-stream;base64,${urlSafe}`,
      `data:image/png;base64,${encodeURIComponent(base64)}`,
    ]) {
      expect((await load(url)).original).toEqual({ width: 40, height: 40 })
    }
  })

  it('fetches over http, through redirects', async () => {
    const png = await plainImage(50, 40).png().toBuffer()
    routes = {
      '/start': (_q, r) => r.writeHead(302, { location: '/middle' }).end(),
      '/middle': (_q, r) => r.writeHead(307, { location: `${origin}/image` }).end(),
      '/image': (_q, r) => r.writeHead(200, { 'content-type': 'text/plain' }).end(png),
    }
    expect((await load(`${origin.replace('http', 'HTTP')}/start`)).original).toEqual({ width: 50, height: 40 })
  })
})

describe('identical media is handled once', () => {
  it('within a request, and later for the same organisation', async () => {
    const handled: string[] = []
    const metered = new MediaLoader({
      allowedHosts: [new URL(origin).host],
      meter: { mediaHandled: (stage, kind) => void handled.push(`${stage} ${kind}`) },
    })
    try {
      const png = await plainImage(70, 40).png().toBuffer()
      routes = { '/a': (_q, r) => r.writeHead(200).end(png), '/b': (_q, r) => r.writeHead(200).end(png) }
      const look = (request: ReturnType<MediaLoader['open']>, url: string, target: object = limits) =>
        request.image({ reference: { type: 'url', url }, param: 'p', signal: never }, target as typeof limits)

      const request = metered.open('org', never)
      const urls = [`${origin}/a`, `${origin}/a`, `${origin}/b`, dataUrl(png)]
      const [first, ...others] = await Promise.all(urls.map((url) => look(request, url)))
      for (const other of others) expect(other).toEqual(first)
      expect(handled.sort()).toEqual(['decode image', 'fetch image', 'fetch image'])

      handled.length = 0
      await look(metered.open('org', never), dataUrl(png))
      expect(handled).toEqual([])
      // Response times must not reveal to another organisation that the media is cached. Another size is another
      // result.
      await look(metered.open('other', never), dataUrl(png))
      await look(metered.open('org', never), dataUrl(png), { width: 64, height: 64 })
      expect(handled).toEqual(['decode image', 'decode image'])

      // Transient media is decoded once within its request, and not kept.
      handled.length = 0
      const another = dataUrl(await plainImage(40, 70).png().toBuffer())
      const transient = metered.open('org', never, { isTransient: true })
      for (const url of [another, another, dataUrl(png)]) await look(transient, url)
      await look(metered.open('org', never), another)
      expect(handled).toEqual(['decode image', 'decode image'])
    } finally {
      await metered.close()
    }
  })

  it('a shared failure names each input', async () => {
    const request = loader.open('org', never)
    const look = (param: string) =>
      request.image({ reference: { type: 'url', url: `${origin}/gone` }, param, signal: never }, limits)
    routes = {}
    const [a, b] = await Promise.allSettled([look('a'), look('b')])
    expect(a).toMatchObject({ status: 'rejected', reason: { param: 'a' } })
    expect(b).toMatchObject({ status: 'rejected', reason: { param: 'b' } })
  })
})

describe('the decoded media of a request', () => {
  it('is limited; duplicates count once, and other requests are not affected', async () => {
    const bytes = await Promise.all([10, 90, 170].map((r) => plainImage(256, 256, { r, g: 0, b: 0 }).png().toBuffer()))
    const [a, b, c] = bytes.map((png) => dataUrl(png))
    // Room for two images.
    const small = new MediaLoader({ decodedBytes: 2 * 256 * 256 * 3 })
    try {
      const look = (request: ReturnType<MediaLoader['open']>, url: string) =>
        request.image({ reference: { type: 'url', url }, param: 'p', signal: never }, limits)
      const request = small.open('org', never)
      for (const url of [a!, b!, a!, b!]) await look(request, url)
      await expect(look(request, c!)).rejects.toMatchObject({
        status: 400,
        param: 'p',
        message: /decoded media of one request/,
      })
      expect((await look(request, a!)).original.width).toBe(256)
      expect((await look(small.open('org', never), c!)).original.width).toBe(256)
    } finally {
      await small.close()
    }
  })
})

describe('concurrent fetches', () => {
  it('are limited, and one organisation leaves some for others', async () => {
    const held: ServerResponse[] = []
    const png = await plainImage(70, 40).png().toBuffer()
    routes = {}
    const paths = Array.from({ length: 6 }, (_, i) => `/held${i}`)
    for (const path of paths) routes[path] = (_q, r) => void held.push(r)
    const narrow = new MediaLoader({ allowedHosts: [new URL(origin).host], fetches: 4 })
    try {
      const gone = new AbortController()
      const look = (organisation: string, path: string, signal = never) =>
        narrow
          .open(organisation, signal)
          .image({ reference: { type: 'url', url: origin + path }, param: 'p', signal }, limits)
      const greedy = paths.slice(0, 3).map((path) => look('greedy', path))
      const left = look('greedy', '/held3', gone.signal)
      await expect.poll(() => held.length).toBe(2)
      const other = look('other', '/held4')
      await expect.poll(() => held.length).toBe(3)
      gone.abort(new Error('client disconnected'))
      await expect(left).rejects.toThrow('client disconnected')
      const answer = () => {
        for (const response of held.splice(0)) response.writeHead(200).end(png)
      }
      answer()
      expect((await other).original.width).toBe(70)
      await expect.poll(() => held.length).toBe(1)
      answer()
      for (const { original } of await Promise.all(greedy)) expect(original.width).toBe(70)
    } finally {
      await narrow.close()
    }
  })
})

describe('disk space', () => {
  it('is freed by removing unused files, which are then fetched again', async () => {
    const png = await plainImage(70, 40).png().toBuffer()
    const fetched: string[] = []
    const give = (name: string, background: { r: number; g: number; b: number }): RequestListener => {
      const bytes = plainImage(70, 40, background).png().toBuffer()
      return async (_q, r) => {
        fetched.push(name)
        r.writeHead(200).end(await bytes)
      }
    }
    routes = { '/a': give('a', { r: 9, g: 9, b: 9 }), '/b': give('b', { r: 99, g: 9, b: 9 }) }
    const spool = { capacityBytes: png.length * 1.5 }
    const cramped = new MediaLoader({ allowedHosts: [new URL(origin).host], spool })
    try {
      using request = cramped.open('org', never)
      const look = (path: string) =>
        request.image({ reference: { type: 'url', url: origin + path }, param: 'p', signal: never }, limits)
      for (const path of ['/a', '/a', '/b', '/a']) expect((await look(path)).original.width).toBe(70)
      expect(fetched).toEqual(['a', 'b', 'a'])
    } finally {
      await cramped.close()
    }
  })

  it('when there is none, the server answers 503', async () => {
    const png = await plainImage(70, 40).png().toBuffer()
    routes = { '/a': (_q, r) => r.writeHead(200).end(png) }
    const cramped = new MediaLoader({ allowedHosts: [new URL(origin).host], spool: { capacityBytes: 20 } })
    try {
      const refused = cramped
        .open('org', never)
        .image({ reference: { type: 'url', url: `${origin}/a` }, param: 'p', signal: never }, limits)
      await expect(refused).rejects.toMatchObject({ status: 503, type: 'server_error', retryAfter: 10 })
    } finally {
      await cramped.close()
    }
  })
})

describe('videos', () => {
  it.each([
    ['mp4', 0],
    ['mp4', 90],
    ['mp4', 180],
    ['mov', 270],
  ] as const)('turns %s rotated by %i degrees upright', async (format, rotation) => {
    // Top left red, top right green, bottom left blue, bottom right yellow, when shown.
    const corners = ['#e01010', '#10e010', '#1010e0', '#e0e010'].map((background, i) => ({
      input: { create: { width: 160, height: 96, channels: 3 as const, background } },
      left: (i % 2) * 160,
      top: i > 1 ? 96 : 0,
    }))
    const shown = await plainImage(320, 192).composite(corners).png().toBuffer()
    const turned = await sharp(shown).rotate(-rotation).removeAlpha().raw().toBuffer({ resolveWithObject: true })
    const frame = { width: turned.info.width, height: turned.info.height, data: turned.data }
    const video = await makeVideo({ format, frames: Array.from({ length: 8 }, () => frame), rotation })

    const wish = { limits: { ...limits, framesPerSecond: 4, maxFrames: 64 }, maxFrames: 64, sound: null }
    const stored = new MediaLoader({ files: { resolveFile: async () => Readable.from([video]) } })
    const reference = { type: 'file', id: 'file-1' } as const
    try {
      const video = await stored.open('org', never).video({ reference, param: 'p', signal: never }, wish)
      expect(video.frames.length).toBeGreaterThan(2)
      const { image } = video.frames.at(-1)!
      expect(image.width).toBeGreaterThan(image.height)
      const at = (x: number, y: number) => {
        const from = (y * image.width + x) * 3
        return [...image.data.subarray(from, from + 3)].map((value) => value > 120)
      }
      const [right, bottom] = [image.width - 12, image.height - 12]
      expect([at(12, 12), at(right, 12), at(12, bottom), at(right, bottom)]).toEqual([
        [true, false, false],
        [false, true, false],
        [false, false, true],
        [true, true, false],
      ])
    } finally {
      await stored.close()
    }
  })
})

describe('rejected images', () => {
  it('the error names the type that was sent', async () => {
    const gif = await plainImage(10, 10).gif().toBuffer()
    expect((await refusal(dataUrl(gif, 'image/png'))).message).toContain('image/gif')
    expect((await refusal(dataUrl(Buffer.from('<svg xmlns="x"/>')))).message).toContain('image/svg+xml')
    expect((await refusal(dataUrl(Buffer.from('hello')))).message).toContain('image/png, image/jpeg, image/webp')
  })

  it.each([
    ['not a URL', 'cat.png'],
    ['empty', ''],
    ['a file', 'file:///etc/passwd'],
    ['no base64 marker', 'data:image/png,abc'],
    ['broken base64', 'data:image/png;base64,@@@@'],
    ['impossible base64', 'data:image/png;base64,AAAAA'],
    ['broken percent encoding', 'data:image/png;base64,%zz'],
    ['nothing', 'data:image/png;base64,'],
    ['another scheme', 'ftp://example.com/a.png'],
  ])('%s', async (_name, url) => {
    await refusal(url)
  })

  it('every truncation of a PNG and a JPEG', async () => {
    const noise = Buffer.from(Array.from({ length: 64 * 64 * 3 }, (_, i) => (i * 7919) % 251))
    const source = sharp(noise, { raw: { width: 64, height: 64, channels: 3 } })
    for (const bytes of [await source.clone().png().toBuffer(), await source.clone().jpeg().toBuffer()]) {
      for (const part of [0.05, 0.3, 0.6, 0.9])
        await refusal(dataUrl(bytes.subarray(0, Math.floor(bytes.length * part))))
    }
  })

  it('a header that declares a gigantic image', async () => {
    const { message } = await refusal(dataUrl(pngHeader(60_000, 60_000)))
    expect(message).toContain('too large')
  })

  it('private and special addresses, by number, name and redirect', async () => {
    routes = { '/away': (_q, r) => r.writeHead(302, { location: 'http://169.254.169.254/latest' }).end() }
    for (const url of [
      'http://127.0.0.1/x.png',
      'http://localhost/x.png',
      'http://[::1]/x.png',
      'http://[::ffff:10.0.0.1]/x.png',
      'http://0x7f.1/x.png',
      'http://169.254.169.254/latest/meta-data',
      'http://10.1.2.3/x.png',
      `${origin}/away`,
    ]) {
      expect((await refusal(url)).message).toMatch(/not public/)
    }
    expect((await refusal('http://example.com:22/x.png')).message).toContain('port 22')
  })

  it('but not those of hosts that are allowed, with the usual port too', async () => {
    const trusting = new MediaLoader({ allowedHosts: ['127.0.0.1:80', 'LOCALHOST:443', '::1'] })
    onTestFinished(() => trusting.close())
    const messageOf = (url: string) =>
      trusting
        .open('org', never)
        .image({ reference: { type: 'url', url }, param: 'p', signal: never }, limits)
        .then(
          () => '',
          (error: Error) => error.message,
        )
    for (const url of ['http://127.0.0.1/x', 'http://127.0.0.1:80/x', 'https://localhost/x', 'http://[::1]:9/x']) {
      expect(await messageOf(url)).not.toMatch(/not public|not allowed/)
    }
    for (const url of ['https://127.0.0.1/x', 'http://localhost/x']) {
      expect(await messageOf(url)).toMatch(/not public/)
    }
  })

  it('failing servers, without repeating secrets', async () => {
    routes = {
      '/loop': (_q, r) => r.writeHead(302, { location: '/loop' }).end(),
      '/long': (_q, r) => r.writeHead(200, { 'content-length': String(30 * 2 ** 20) }).end(),
      '/flood': (_q, r) => {
        r.writeHead(200)
        const piece = Buffer.alloc(2 ** 20)
        r.write(pngHeader(10, 10))
        const pour = () => {
          while (!r.destroyed && r.write(piece));
        }
        r.on('drain', pour)
        pour()
      },
    }
    expect((await refusal(`${origin}/gone?token=secret`)).message).toMatch(/HTTP 404/)
    expect((await refusal(`${origin}/gone?token=secret`)).message).not.toContain('secret')
    expect((await refusal(`${origin}/loop`)).message).toMatch(/redirects/)
    expect((await refusal(`${origin}/long`)).message).toMatch(/larger than/)
    expect((await refusal(`${origin}/flood`)).message).toMatch(/larger than/)
  })

  it.each<[string, string, RegExp]>([
    ['something other than HTTP', 'hello\r\n\r\n', /\(the response is not valid HTTP\)$/],
    [
      'a broken chunk',
      'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nZZZ\r\n',
      /the response is not valid HTTP/,
    ],
    ['half of a response', 'HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nabc', /the server closed the connection/],
    ['nothing', '', /the server closed the connection/],
  ])('a server that answers %s: the error says so', async (_name, answer, reason) => {
    const broken = createTcpServer((socket) => {
      socket.on('error', () => {}).once('data', () => socket.end(answer))
    }).listen(0, '127.0.0.1')
    await once(broken, 'listening')
    const { port } = broken.address() as AddressInfo
    const trusting = new MediaLoader({ allowedHosts: ['127.0.0.1'] })
    try {
      const loading = trusting
        .open('org', never)
        .image({ reference: { type: 'url', url: `http://127.0.0.1:${port}/a` }, param: 'p', signal: never }, limits)
      await expect(loading).rejects.toMatchObject({ status: 400, message: reason })
    } finally {
      broken.close()
      await trusting.close()
    }
  })

  it('a server may close a kept connection just when it is asked for something', async () => {
    const picture = await plainImage(30, 20).png().toBuffer()
    const asked = new WeakSet<object>()
    const connections: boolean[] = []
    routes = {
      '/kept': ({ socket }, r) => {
        connections.push(asked.has(socket))
        if (asked.has(socket)) socket.destroy()
        else r.end(picture)
        asked.add(socket)
      },
    }
    for (let i = 0; i < 2; i++) expect((await load(`${origin}/kept`)).original).toEqual({ width: 30, height: 20 })
    expect(connections).toEqual([false, true, false])
  })

  it('an aborted request ends at once', async () => {
    const controller = new AbortController()
    routes = { '/silent': () => controller.abort(new Error('client disconnected')) }
    const pending = load(`${origin}/silent`, controller.signal)
    await expect(pending).rejects.toThrow('client disconnected')
  })
})

describe('isPublic', () => {
  it.each(['8.8.8.8', '2606:4700::1111'])('%s is', (address) => expect(isPublic(address)).toBe(true))
  it.each([
    '0.0.0.0',
    '100.64.0.1',
    '192.168.1.1',
    '172.16.0.1',
    '224.0.0.1',
    '::',
    'fe80::1',
    'fc00::1',
    '::ffff:127.0.0.1',
    '64:ff9b::7f00:1',
    '2002:7f00:1::',
    'not an address',
  ])('%s is not', (address) => expect(isPublic(address)).toBe(false))
})

/** A PNG whose header says `width` x `height`, with only a few bytes of data. */
function pngHeader(width: number, height: number): Buffer {
  const chunk = (type: string, data: Buffer) => {
    const body = Buffer.concat([Buffer.from(type, 'latin1'), data])
    const head = Buffer.alloc(4)
    head.writeUInt32BE(data.length)
    const tail = Buffer.alloc(4)
    tail.writeUInt32BE(crc32(body))
    return Buffer.concat([head, body, tail])
  }
  const header = Buffer.alloc(13)
  header.writeUInt32BE(width, 0)
  header.writeUInt32BE(height, 4)
  header.set([8, 2, 0, 0, 0], 8)
  const signature = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a])
  return Buffer.concat([
    signature,
    chunk('IHDR', header),
    chunk('IDAT', deflateSync(Buffer.alloc(100))),
    chunk('IEND', Buffer.alloc(0)),
  ])
}

/** The image as a camera stores it when held in this orientation. */
async function lying(upright: Buffer, orientation: number): Promise<Buffer> {
  const turn = (angle: number) => sharp(upright).rotate(angle).png().toBuffer()
  const stored = [
    upright,
    sharp(upright).flop().png().toBuffer(),
    turn(180),
    sharp(upright).flip().png().toBuffer(),
    turn(90).then((turned) => sharp(turned).flop().png().toBuffer()),
    turn(270),
    turn(90).then((turned) => sharp(turned).flip().png().toBuffer()),
    turn(90),
  ][orientation - 1]!
  return sharp(await stored)
    .withMetadata({ orientation })
    .jpeg({ quality: 100 })
    .toBuffer()
}
