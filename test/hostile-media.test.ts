import { once } from 'node:events'
import { createServer, type IncomingMessage, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { crc32, deflateSync } from 'node:zlib'
import sharp from 'sharp'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { MediaLoader, type MediaLoaderOptions } from '../src/media/media-loader.ts'
import { makeBitmap } from './support/bitmap.ts'
import { FakeEngine } from './support/fake-engine.ts'
import { type HearingCard, hearingCard } from './support/hearing-card.ts'
import { errorOf, startTestServer, type TestServer } from './support/server.ts'
import { makeAudio, makeVideo } from './support/video.ts'

/**
 * Malicious and broken files and servers. Each request gets a reply or a 400 that says what is wrong, and the next
 * image is processed as usual.
 */
const pixels = (width: number, height: number, shade = 90) => ({
  width,
  height,
  data: new Uint8Array(width * height * 3).fill(shade),
})
const noise = (seed: number) => ({
  width: 320,
  height: 192,
  data: new Uint8Array(320 * 192 * 3).map((_, i) => ((i * 7919 * (seed + 3)) >> 3) & 255),
})
const noisy = Array.from({ length: 20 }, (_, i) => noise(i))
const still = (width: number, height: number) =>
  sharp({ create: { width, height, channels: 3, background: '#c83232' } })
const dataUrl = (bytes: Uint8Array | string, type = 'image/png') =>
  `data:${type};base64,${Buffer.from(bytes).toString('base64')}`

let card: HearingCard
let server: TestServer
let webs: Server[] = []
let origin: string
let otherOrigin: string
let routes: Record<string, RequestListener>
let seen: IncomingMessage[]
let engine: FakeEngine

/** Host names that resolve to addresses that are not public. */
const NAMES: Record<string, string[]> = {
  'home.example': ['127.0.0.1'],
  'both.example': ['93.184.216.34', '10.0.0.7'],
  'mapped.example': ['::ffff:127.0.0.1'],
  'shared.example': ['100.64.1.2'],
  'local6.example': ['fe80::1'],
  'unique.example': ['fd00::1'],
  'many.example': ['224.0.0.1'],
}
const asked: string[] = []
const resolve: NonNullable<MediaLoaderOptions['resolve']> = (hostname, _options, callback) => {
  asked.push(hostname)
  const addresses = NAMES[hostname] ?? []
  if (hostname === 'busy.example') {
    callback(Object.assign(new Error(`getaddrinfo EMFILE ${hostname}`), { code: 'EMFILE' }), [])
    return
  }
  callback(
    null,
    addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 })),
  )
}

beforeAll(async () => {
  const serve: RequestListener = (request, response) => {
    seen.push(request)
    const route = routes[request.url ?? '']
    if (route) route(request, response)
    else response.writeHead(404).end()
  }
  webs = [createServer(serve), createServer(serve)]
  const origins = await Promise.all(
    webs.map(async (web) => {
      await once(web.listen(0, '127.0.0.1'), 'listening')
      return `http://127.0.0.1:${(web.address() as AddressInfo).port}`
    }),
  )
  ;[origin, otherOrigin] = origins as [string, string]
  card = await hearingCard()
  engine = new FakeEngine({ modalities: { image: true, audio: true } })
  server = await startServer(60_000)
})
afterAll(async () => {
  await server?.close()
  for (const web of webs) {
    web.closeAllConnections()
    web.close()
  }
  await card?.remove()
})
beforeEach(() => {
  routes = {}
  seen = []
  asked.length = 0
  engine.works.length = 0
})

function startServer(fetchTimeoutMs: number): Promise<TestServer> {
  const media = new MediaLoader({
    allowedHosts: [origin, otherOrigin].map((url) => new URL(url).host),
    fetchTimeoutMs,
    resolve,
  })
  return startTestServer({ engine, media, environment: { LOOKOUT_MODEL_CARD: card.path } })
}

const image = (url: string) => ({ type: 'image_url', image_url: { url } })
const video = (bytes: Uint8Array) => ({ type: 'video_url', video_url: { url: dataUrl(bytes, 'video/mp4') } })
const audio = (bytes: Uint8Array) => ({
  type: 'input_audio',
  input_audio: { data: Buffer.from(bytes).toString('base64'), format: 'wav' },
})

function ask(...parts: object[]) {
  return server.post('/v1/chat/completions', {
    model: 'service-mk1.5',
    messages: [{ role: 'user', content: [...parts, { type: 'text', text: 'What is this?' }] }],
  })
}

async function answered(...parts: object[]) {
  const response = await ask(...parts)
  expect(response.status, JSON.stringify(await response.clone().json())).toBe(200)
  return engine.works.at(-1)!.prefix.filter((part) => part.type !== 'text')
}

async function refused(part: object, message: RegExp, code: string | null = null) {
  const before = engine.works.length
  const response = await ask(part)
  const error = await errorOf(response)
  expect(error.message).toMatch(message)
  expect(error).toMatchObject({ type: 'invalid_request_error', code })
  expect(error.param).toMatch(/^messages\[0\]\.content\[0\]\./)
  expect(response.status).toBe(400)
  expect(engine.works).toHaveLength(before)
  // The next input is processed as usual.
  await answered(image(dataUrl(await still(40, 40).png().toBuffer())))
}

describe('images', () => {
  it('50 kB with 30,000 x 30,000 pixels: rejected before decoding', async () => {
    await refused(image(dataUrl(pngOf(30_000, 30_000, 50_000))), /too large: 30000 x 30000 pixels/)
  })

  it('a million rows of one pixel, and more: rejected before decoding', async () => {
    await refused(image(dataUrl(pngOf(1, 1_000_001, 8_000))), /too large: 1 x 1000001 pixels/)
    await refused(image(dataUrl(makeBitmap({ bits: 8, runs: true, width: 1, height: 99_000_000 }))), /too large/)
  })

  it('one pixel: accepted', async () => {
    expect(await answered(image(dataUrl(await still(1, 1).png().toBuffer())))).toHaveLength(1)
  })

  it.each<[string, () => Promise<Buffer>]>([
    ['CMYK', () => still(60, 40).toColourspace('cmyk').jpeg().toBuffer()],
    ['16 bits', () => still(60, 40).toColourspace('rgb16').png().toBuffer()],
    ['one bit', () => still(60, 40).threshold(128).png({ palette: true, colours: 2 }).toBuffer()],
    ['progressive', () => still(60, 40).jpeg({ progressive: true }).toBuffer()],
    ['very wide', () => still(9000, 3).png().toBuffer()],
    ['very high', () => still(2, 7000).webp().toBuffer()],
  ])('%s: answered', async (_name, make) => {
    expect(await answered(image(dataUrl(await make())))).toHaveLength(1)
  })

  it('an animation: its first frame is used', async () => {
    const [red, blue] = await Promise.all(
      ['#ff0000', '#0000ff'].map((background) =>
        sharp({ create: { width: 64, height: 64, channels: 3, background } })
          .png()
          .toBuffer(),
      ),
    )
    const moving = await sharp([red!, blue!], { join: { animated: true } })
      .webp({ lossless: true })
      .toBuffer()
    const [part] = await answered(image(dataUrl(moving)))
    expect(part).toMatchObject({ type: 'image' })
    if (part?.type === 'image') expect([...part.image.data.subarray(0, 3)]).toEqual([255, 0, 0])
  })

  it('an animation: the response says that there are more frames', async () => {
    const colours = ['#ff0000', '#00ff00', '#0000ff'].map((background) =>
      sharp({ create: { width: 32, height: 32, channels: 3, background } })
        .png()
        .toBuffer(),
    )
    const webp = await sharp(await Promise.all(colours), { join: { animated: true } })
      .webp()
      .toBuffer()
    // An animated PNG: a chunk before the pixels says how many frames follow.
    const png = await still(32, 32).png().toBuffer()
    const control = Buffer.alloc(20)
    control.writeUInt32BE(8, 0)
    control.write('acTL', 4, 'latin1')
    control.writeUInt32BE(3, 8)
    control.writeUInt32BE(crc32(control.subarray(4, 16)), 16)
    const animated = Buffer.concat([png.subarray(0, 33), control, png.subarray(33)])
    const note = 'An image is an animation of 3 frames, of which only the first is looked at'
    // An animated AVIF, by its own name and by that of a still one.
    const avif = await makeVideo({ format: 'avif', frames: [10, 120, 240].map((shade) => pixels(64, 64, shade)) })
    const named = Buffer.from(avif)
    named.write('avif', 8, 'latin1')
    expect(avif.toString('latin1', 4, 12)).toBe('ftypavis')
    for (const bytes of [webp, animated, avif, named]) {
      const response = await ask(image(dataUrl(bytes)))
      expect(response.status).toBe(200)
      expect(response.headers.get('x-lookout-note')).toBe(note)
    }
    const [first] = await answered(image(dataUrl(avif)))
    if (first?.type === 'image') expect(Math.abs(first.image.data[0]! - 10)).toBeLessThan(8)
    for (const [path, body] of [
      ['/v1/detect', { media: { type: 'image', image_url: dataUrl(webp) }, categories: ['a'] }],
      [
        '/v1/responses',
        {
          model: 'service-mk1.5',
          input: [{ role: 'user', content: [{ type: 'input_image', image_url: dataUrl(webp) }] }],
        },
      ],
      [
        '/v1/chat/completions/multilook',
        { model: 'service-mk1.5', context: [{ role: 'user', content: [image(dataUrl(webp))] }], prompts: ['a'] },
      ],
    ] as const) {
      const response = await server.post(path, body)
      expect(response.headers.get('x-lookout-note'), `${path} ${await response.text()}`).toBe(note)
    }
    expect(server.logs.filter((line) => line.includes(note)).length).toBeGreaterThan(0)
    expect((await ask(image(dataUrl(png)))).headers.get('x-lookout-note')).toBeNull()
  })

  it.each([0.02, 0.3, 0.9])('a JPEG truncated to %d of its length: rejected', async (share) => {
    const whole = await sharp(Buffer.from(noise(1).data), { raw: { width: 320, height: 192, channels: 3 } })
      .jpeg()
      .toBuffer()
    await refused(image(dataUrl(whole.subarray(0, Math.floor(whole.length * share)))), /damaged|truncated/)
  })

  it.each<[string, string | Promise<Buffer>]>([
    ['image/gif', still(20, 20).gif().toBuffer()],
    [
      'image/svg+xml',
      '<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg"><image href="file:///etc/passwd"/></svg>',
    ],
    ['application/pdf', '%PDF-1.7\n'],
    ['image/heic', '\0\0\0\x18ftypheic\0\0\0\0mif1heic'],
    ['image/tiff', 'II*\0'],
    ['text/html', '<!DOCTYPE html><title>Sign in</title>'],
    ['video/mp4', '\0\0\0\x18ftypisom\0\0\0\0'],
    ['an unknown type', 'MZ'],
  ])('%s declared as PNG: rejected by its actual type', async (type, bytes) => {
    await refused(
      image(dataUrl(await bytes)),
      new RegExp(`the data is ${type.replace('+', '\\+')}; supported types are image/png`),
    )
  })

  it('base64 with white space and without padding: accepted', async () => {
    const base64 = (await still(31, 17).png().toBuffer()).toString('base64').replace(/=+$/, '')
    const blanks = base64.replace(/.{50}/g, '$& \r\n\t')
    expect(await answered(image(`data:image/png;base64, ${blanks}`))).toHaveLength(1)
  })

  it('a data URL larger than the body limit: 413', async () => {
    const response = await ask(image(dataUrl(Buffer.alloc(16 * 2 ** 20))))
    expect(response.status).toBe(413)
    expect(await errorOf(response)).toMatchObject({ type: 'invalid_request_error' })
  })
})

describe('videos', () => {
  it.each([0.05, 0.5, 0.98])('an MP4 truncated to %d of its length: rejected', async (share) => {
    for (const indexFirst of [true, false]) {
      const whole = await makeVideo({ format: 'mp4', frames: noisy, indexFirst })
      await refused(video(whole.subarray(0, Math.floor(whole.length * share))), /damaged or truncated/)
    }
  })

  it.each([true, false])(
    'an MP4 whose edit list shows a part of it: only that is seen (index first: %s)',
    async (indexFirst) => {
      const frames = Array.from({ length: 100 }, (_, i) => (i < 40 || i >= 60 ? noise(i) : pixels(320, 192, 4 * i)))
      const whole = await makeVideo({ format: 'mp4', frames, interval: 10, indexFirst })
      const edit = whole.indexOf('elst') + 12
      // The length is in milliseconds, and the start in units of the track, whose header says how many are a second.
      whole.writeUInt32BE(2000, edit)
      const second = whole.readUInt32BE(whole.indexOf('mdhd') + 16)
      whole.writeUInt32BE(whole.readUInt32BE(edit + 4) + 4 * second, edit + 4)
      const seen = await answered(video(whole))
      const shades = seen.flatMap((part) => (part.type === 'frames' ? part.frames.map(({ data }) => data[0]!) : []))
      expect(shades).toHaveLength(4)
      for (const [i, shade] of shades.entries()) expect(Math.abs(shade - 4 * (40 + 5 * i))).toBeLessThan(8)
      await refused(video(whole.subarray(0, Math.floor(whole.length * 0.3))), /damaged or truncated/)
    },
  )

  it.each([1, 3])(
    'an MP4 whose edit list has no length, as of a single frame: all of it is seen: %i',
    async (count) => {
      const frames = Array.from({ length: count }, () => pixels(320, 192, 200))
      const whole = await makeVideo({ format: 'mp4', frames })
      whole.writeUInt32BE(0, whole.indexOf('elst') + 12)
      const seen = await answered(video(whole))
      const shades = seen.flatMap((part) => (part.type === 'frames' ? part.frames.map(({ data }) => data[0]!) : []))
      expect(shades.length).toBeGreaterThan(0)
      for (const shade of shades) expect(Math.abs(shade - 200)).toBeLessThan(8)
    },
  )

  it('a truncated WebM, like one that is being recorded: its existing frames are used', async () => {
    const whole = await makeVideo({ format: 'webm', frames: noisy })
    const parts = await answered(video(whole.subarray(0, Math.floor(whole.length * 0.6))))
    expect(parts.length).toBeGreaterThan(0)
  })

  it('an MP4 with a declared duration of a year: sampled by its actual frames', async () => {
    const honest = await makeVideo({ format: 'mp4', frames: noisy })
    const lying = Buffer.from(honest)
    for (const box of ['mvhd', 'tkhd', 'mdhd']) {
      // Version 0: the duration follows two timestamps and, in the track header, an id and four more bytes.
      const at = lying.indexOf(box) + 4 + (box === 'tkhd' ? 20 : 16)
      lying.writeUInt32BE(0x7fffffff, at)
    }
    expect(await answered(video(lying))).toEqual(await answered(video(honest)))
  })

  it('no frames: rejected', async () => {
    await refused(video(await makeVideo({ format: 'mp4', frames: noisy, empty: true })), /has no video/)
  })

  it('only audio: rejected', async () => {
    const bytes = await makeVideo({ format: 'mp4', frames: noisy, empty: true, audioSeconds: 1 })
    await refused(video(bytes), /has no video/)
  })

  it('ten hours in two frames: processed within seconds', async () => {
    const bytes = await makeVideo({
      format: 'webm',
      frames: [pixels(64, 64), pixels(64, 64, 200)],
      times: [0, 36_000_000],
    })
    const parts = await answered(video(bytes))
    // The most frames that the model takes of any video, two in each part.
    expect(parts).toHaveLength(64)
  })

  it('timestamps out of order: frames are sorted by time', async () => {
    const times = [0, 40, 45, 50, 4000, 4010, 4020, 9000]
    const bytes = await makeVideo({ format: 'webm', frames: times.map((_, i) => pixels(64, 64, i * 30)), times })
    const response = await ask(video(bytes))
    expect(response.status).toBe(200)
    const spoken = engine.works
      .at(-1)!
      .prefix.flatMap((part) => (part.type === 'text' ? [part.text] : []))
      .join('')
    const seconds = [...spoken.matchAll(/<([\d.]+) seconds>/g)].map((match) => Number(match[1]))
    expect(seconds).toEqual([...seconds].sort((a, b) => a - b))
    expect(seconds.at(-1)).toBeLessThan(10)
  })

  it.each([
    [
      'an HLS playlist',
      `#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\nfile:///etc/passwd\n`,
      /application\/vnd\.apple\.mpegurl/,
    ],
    ['a list for the concat demuxer', `ffconcat version 1.0\nfile '/etc/passwd'\n`, /unknown type/],
    ['an AVI with a list inside', `RIFF\0\0\0\0AVI LISThdrl#EXTM3U`, /video\/x-msvideo/],
    ['Matroska that is not WebM', `\x1a\x45\xdf\xa3\x01\0\0\0\0\0\0\x14\x42\x82\x88matroska`, /video\/x-matroska/],
    ['a script', `#!/bin/sh\n`, /unknown type/],
  ])('%s: rejected by its bytes', async (_name, text, message) => {
    await refused(video(Buffer.from(text, 'latin1')), message)
  })

  it('an MP4 that refers to another file: that file is not opened', async () => {
    const bytes = await makeVideo({ format: 'mp4', frames: noisy })
    // The only entry of `dref` is `url ` with the flag "in this file". Without the flag it names another file.
    const flag = bytes.indexOf('url ') + 7
    expect(bytes[flag]).toBe(1)
    const elsewhere = Buffer.from(bytes)
    elsewhere[flag] = 0
    expect(await answered(video(elsewhere))).toEqual(await answered(video(bytes)))
  })

  it('an inline QuickTime video: rejected with a hint to upload it', async () => {
    await refused(
      video(await makeVideo({ format: 'mov', frames: noisy })),
      /video\/quicktime.*accepted as an uploaded file only/,
    )
  })

  it('random damage anywhere: a reply or a 400', async () => {
    const whole = await makeVideo({ format: 'mp4', frames: noisy, audioSeconds: 1 })
    for (let seed = 1; seed <= 12; seed++) {
      const damaged = Buffer.from(whole)
      for (let i = 0; i < 40; i++)
        damaged[(seed * 7919 + i * i * 104_729) % damaged.length] = (seed * 31 + i * 17) & 255
      expect([200, 400]).toContain((await ask(video(damaged))).status)
    }
  })
})

describe('audio', () => {
  it('ten hours of silence: rejected as soon as the limit is exceeded', async () => {
    const second = await makeAudio({ format: 'mp3', samples: new Float32Array(8000), rate: 8000 })
    const body = Buffer.concat(Array.from({ length: 36_000 }, () => second.subarray(-1008)))
    routes = { '/long.mp3': (_request, response) => response.writeHead(200).end(body) }
    const part = { type: 'audio_url', audio_url: { url: `${origin}/long.mp3` } }
    await refused(part, /longer than 1024 audio tokens/, 'audio_token_limit_exceeded')
  })

  it('nothing but a header: rejected', async () => {
    await refused(audio(Buffer.from('RIFF\x04\0\0\0WAVE', 'latin1')), /damaged|has no audio/)
  })
})

describe('servers', () => {
  it('a lack of file descriptors is a 503, and the log does not name the host', async () => {
    server.logs.length = 0
    const url = 'http://busy.example/private'
    const response = await server.post('/v1/chat/completions', {
      model: 'service-mk1.5',
      messages: [{ role: 'user', content: [image(url)] }],
    })
    expect(response.status).toBe(503)
    await expect.poll(() => server.logs.join('')).toContain('"cause":"EMFILE: no connection can be opened"')
    expect(server.logs.join('')).not.toMatch(/busy|private/)
  })

  it('HTML at the URL of an image: not read to its end', async () => {
    let sent = 0
    routes = {
      '/page.png': (_request, response) => {
        response.writeHead(200, { 'content-type': 'image/png' })
        const pour = () => {
          while (!response.destroyed && response.write(`<!DOCTYPE html>${' '.repeat(65_536)}`)) sent++
        }
        response.on('drain', pour)
        pour()
      },
    }
    await refused(image(`${origin}/page.png`), /the data is text\/html/)
    expect(sent * 65_536).toBeLessThan(19 * 2 ** 20)
  })

  it('a closed connection: rejected', async () => {
    routes = { '/cut.png': (_request, response) => void response.socket!.destroy() }
    await refused(image(`${origin}/cut.png`), /Could not fetch/)
  })

  it('more than three redirects, and redirects to addresses that are not public: rejected', async () => {
    routes = {
      '/1': (_q, r) => r.writeHead(302, { location: '/2' }).end(),
      '/2': (_q, r) => r.writeHead(301, { location: '/3' }).end(),
      '/3': (_q, r) => r.writeHead(307, { location: '/4' }).end(),
      '/4': (_q, r) => r.writeHead(308, { location: '/5' }).end(),
      '/meta': (_q, r) => r.writeHead(302, { location: 'http://169.254.169.254/latest/meta-data/' }).end(),
      '/name': (_q, r) => r.writeHead(302, { location: 'http://home.example/x.png' }).end(),
      '/file': (_q, r) => r.writeHead(302, { location: 'file:///etc/passwd' }).end(),
    }
    await refused(image(`${origin}/1`), /more than 3 redirects/)
    await refused(image(`${origin}/meta`), /169\.254\.169\.254 is not allowed: its address is not public/)
    await refused(image(`${origin}/name`), /home\.example is not allowed/)
    await refused(image(`${origin}/file`), /must be an http/)
  })

  it.each(Object.keys(NAMES))('a host name with an address that is not public: %s', async (name) => {
    await refused(image(`http://${name}/x.png`), /not public/)
    // Looked up once: a second look-up could return another address.
    expect(asked).toEqual([name])
  })

  it.each([
    'http://0x7f000001/',
    'http://2130706433/',
    'http://127.1/',
    'http://[::1]/',
    'http://[::127.0.0.1]/',
    'http://[64:ff9b::7f00:1]/',
  ])('%s: rejected in any spelling', async (address) => {
    await refused(image(address), /not public/)
  })

  it('user names and passwords in a URL are not repeated in errors or logs', async () => {
    const url = `http://user:secret@${new URL(origin).host}/private.png?token=hidden`
    const response = await ask(image(url))
    const text = await response.text()
    expect(text).toMatch(/HTTP 404/)
    expect(text).not.toMatch(/secret|hidden/)
    expect(server.logs.join()).not.toMatch(/secret|hidden|dXNlcjpzZWNyZXQ/)
    expect(seen).toHaveLength(1)
    for (const header of ['cookie', 'proxy-authorization']) expect(seen[0]!.headers[header]).toBeUndefined()
  })

  it('a user name and password in a URL are sent to its origin, and to no other', async () => {
    const png = await still(50, 40).png().toBuffer()
    const show: RequestListener = (_q, r) => r.writeHead(200).end(png)
    const to =
      (location: string): RequestListener =>
      (_q, r) =>
        r.writeHead(302, { location }).end()
    const { host } = new URL(origin)
    routes = {
      '/start.png': to('/next.png'),
      '/next.png': show,
      '/away.png': to(`http://someone:else@${new URL(otherOrigin).host}/x.png`),
      '/x.png': to(`${origin}/back.png`),
      '/back.png': show,
    }
    await answered(image(`http://us%C3%A9r:a%3Ab%25@${host}/start.png`))
    await answered(image(`http://:only@${host}/away.png`))
    await answered(image(`${origin}/next.png`))
    const basic = (login: string) => `Basic ${Buffer.from(login).toString('base64')}`
    expect(seen.map(({ url, headers }) => [url, headers.authorization])).toEqual([
      ['/start.png', basic('usér:a:b%')],
      ['/next.png', basic('usér:a:b%')],
      ['/away.png', basic(':only')],
      ['/x.png', undefined],
      ['/back.png', undefined],
      ['/next.png', undefined],
    ])
  })

  it('duplicates in a request are fetched once', async () => {
    const png = await still(50, 40).png().toBuffer()
    routes = { '/same.png': (_request, response) => response.writeHead(200).end(png) }
    expect(await answered(...Array.from({ length: 20 }, () => image(`${origin}/same.png`)))).toHaveLength(20)
    expect(seen).toHaveLength(1)
  })
})

describe('servers that take too long', () => {
  let patient: TestServer
  beforeAll(async () => {
    patient = server
    server = await startServer(1500)
  })
  afterAll(async () => {
    await server.close()
    server = patient
  })

  it('one byte at a time: fails at the time limit', async () => {
    routes = {
      '/drip.png': (_request, response) => {
        response.writeHead(200)
        const timer = setInterval(() => response.write('\x89'), 50)
        response.on('close', () => clearInterval(timer))
      },
    }
    await refused(image(`${origin}/drip.png`), /no response within 1.5 s/)
  })

  it('no response: rejected', async () => {
    routes = { '/mute.png': () => {} }
    await refused(image(`${origin}/mute.png`), /no response within 1.5 s/)
  })
})

describe('unsupported input', () => {
  it('is rejected before any media is fetched', async () => {
    const content = [
      { type: 'audio_url', audio_url: { url: `${origin}/sound.wav` } },
      { type: 'no_such_part', url: `${origin}/x` },
    ]
    const response = await ask(...content)
    expect(response.status).toBe(400)
    expect(seen).toHaveLength(0)
  })
})

/** A PNG whose header declares this size, with about `bytes` of meaningless data. */
function pngOf(width: number, height: number, bytes: number): Buffer {
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
  // Rows of zeros compress a thousand to one.
  const rows = deflateSync(Buffer.alloc(bytes * 1000), { level: 9 })
  const signature = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a])
  return Buffer.concat([signature, chunk('IHDR', header), chunk('IDAT', rows), chunk('IEND', Buffer.alloc(0))])
}
