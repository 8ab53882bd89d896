import { once } from 'node:events'
import { createServer, type IncomingMessage, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { brotliCompressSync, deflateRawSync, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib'
import fc from 'fast-check'
import sharp from 'sharp'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { RgbImage } from '../src/media/pixels.ts'
import { premultipliedAvif } from './support/avif.ts'
import { type BitmapSpec, makeBitmap, QUARTERS } from './support/bitmap.ts'
import { FakeEngine } from './support/fake-engine.ts'
import { type HearingCard, hearingCard } from './support/hearing-card.ts'
import { inLinearLight } from './support/profile.ts'
import { errorOf, jsonOf, KEY, startTestServer, type TestServer } from './support/server.ts'
import { makeAudio, makeVideo, tone, type VideoSpec } from './support/video.ts'

/** Media as clients send it, and as other servers hand it out. */
const model = 'service-mk1.5'
const COLOUR = { r: 200, g: 50, b: 50 }
/** That colour of Display P3 in sRGB, by the matrices of both. */
const EXPECTED_P3 = [218, 24, 40]

let server: TestServer
let engine: FakeEngine
let card: HearingCard
let web: Server
let origin: string
let routes: Record<string, RequestListener>
let asked: IncomingMessage[]
let png: Buffer
let webm: Buffer
let wav: Buffer

beforeAll(async () => {
  web = createServer((request, response) => {
    asked.push(request)
    const route = routes[request.url ?? '']
    if (route) route(request, response)
    else response.writeHead(404).end()
  }).listen(0, '127.0.0.1')
  await once(web, 'listening')
  origin = `http://127.0.0.1:${(web.address() as AddressInfo).port}`
  card = await hearingCard()
  engine = new FakeEngine({ modalities: { image: true, audio: true } })
  const environment = {
    LOOKOUT_MODEL_CARD: card.path,
    LOOKOUT_OLLAMA: 'on',
    LOOKOUT_MEDIA_HOSTS: new URL(origin).host,
  }
  server = await startTestServer({ engine, environment })
  png = await sharp({ create: { width: 64, height: 64, channels: 3, background: COLOUR } })
    .png()
    .toBuffer()
  const frame = { width: 64, height: 64, data: new Uint8Array(64 * 64 * 3).fill(90) }
  webm = await makeVideo({ format: 'webm', frames: [frame, frame, frame] })
  const samples = Float32Array.from({ length: 16_000 }, (_, i) => tone(i / 16_000))
  wav = await makeAudio({ format: 'wav', samples, rate: 16_000 })
})
afterAll(async () => {
  await server?.close()
  web?.closeAllConnections()
  web?.close()
  await card?.remove()
})
beforeEach(() => {
  routes = {}
  asked = []
  engine.works.length = 0
  engine.script = { texts: ['None.'] }
})

const image = (url: string) => ({ type: 'image_url', image_url: { url } })
const ask = (...parts: object[]) =>
  server.post('/v1/chat/completions', { model, messages: [{ role: 'user', content: parts }] })

/** How many images or pieces of sound the prompt holds. */
async function seen(response: Response): Promise<number> {
  expect(response.status, await response.clone().text()).toBe(200)
  return engine.works.at(-1)!.prefix.filter((part) => part.type !== 'text').length
}

/** The colour of the middle of the only image in the prompt. */
function colour(): number[] {
  const [part] = engine.works.at(-1)!.prefix.filter(({ type }) => type === 'image') as unknown as [
    { image: { width: number; height: number; data: Uint8Array } },
  ]
  const { width, height, data } = part.image
  const at = (Math.floor(height / 2) * width + Math.floor(width / 2)) * 3
  return [...data.subarray(at, at + 3)]
}

describe('a fetch', () => {
  /** Wikimedia's rule for clients, and what its media servers do. */
  const likeWikimedia: RequestListener = ({ headers }, response) => {
    const agent = headers['user-agent'] ?? ''
    if (!/^[A-Za-z]+\/\d+(\.\d+)+ \(.+\)/.test(agent)) response.writeHead(403).end('Set a user-agent')
    else response.writeHead(200, { 'content-type': 'image/png' }).end(png)
  }

  test('says who asks and what for, after a redirect too', async () => {
    routes = {
      '/moved': (_request, response) => response.writeHead(302, { location: '/picture' }).end(),
      '/picture': likeWikimedia,
    }
    expect(await seen(await ask(image(`${origin}/moved`)))).toBe(1)
    expect(asked.map(({ url }) => url)).toEqual(['/moved', '/picture'])
    for (const { headers } of asked) {
      expect(headers).toMatchObject({
        'user-agent': expect.stringMatching(/^Lookout\/\d+\.\d+\.\d+ \(/),
        'accept-encoding': 'identity',
        accept: expect.stringMatching(/^image\/\*.*video\/\*.*audio\/\*.*\*\/\*;q=0\.\d$/),
      })
    }
  })

  test.each([
    ['gzip', gzipSync],
    ['x-gzip', gzipSync],
    ['deflate', deflateSync],
    ['deflate', deflateRawSync],
    ['br', brotliCompressSync],
    ['zstd', zstdCompressSync],
    ['GZIP', gzipSync],
    ['identity', (bytes: Buffer) => bytes],
    ['aws-chunked', (bytes: Buffer) => bytes],
    ['gzip, aws-chunked', gzipSync],
  ])('decodes %s, which was not asked for', async (encoding, compress) => {
    const body = compress(png)
    routes = {
      '/whole': (_request, response) => response.writeHead(200, { 'content-encoding': encoding }).end(body),
      '/cut': (_request, response) => {
        const half = body.subarray(0, body.length / 2)
        response.writeHead(200, { 'content-encoding': encoding }).end(half)
      },
    }
    expect(await seen(await ask(image(`${origin}/whole`)))).toBe(1)
    const cut = await ask(image(`${origin}/cut`))
    expect([cut.status, (await errorOf(cut)).param]).toEqual([400, 'messages[0].content[0].image_url.url'])
  })

  test('stops at the limit for the decoded bytes, and for bytes that decode to nothing', async () => {
    const large = Buffer.concat([png, Buffer.alloc(64 * 2 ** 20)])
    const empty = Buffer.alloc(32 * 2 ** 20, gzipSync(''))
    const handOut =
      (body: Buffer, encoding: string): RequestListener =>
      (_request, response) => {
        response.writeHead(200, { 'content-encoding': encoding, 'transfer-encoding': 'chunked' })
        response.end(body)
      }
    routes = {
      '/gzip': handOut(gzipSync(large), 'gzip'),
      '/br': handOut(brotliCompressSync(large), 'br'),
      '/zstd': handOut(zstdCompressSync(large), 'zstd'),
      '/empty': handOut(empty, 'gzip'),
    }
    for (const path of Object.keys(routes)) {
      const response = await ask(image(origin + path))
      expect([path, response.status, (await errorOf(response)).message]).toEqual([
        path,
        400,
        `Could not fetch the media at ${origin}${path} (larger than 20 MiB)`,
      ])
    }
  })

  test.each([
    ['gzip', /is not valid gzip/],
    ['zstd', /is not valid zstd/],
    ['compress', /its Content-Encoding, 'compress', is not supported/],
    ['gzip, gzip', /its Content-Encoding, 'gzip, gzip', is not supported/],
    ['constructor', /its Content-Encoding, 'constructor', is not supported/],
  ])('says what is wrong with content in %s', async (encoding, message) => {
    routes = { '/odd': (_request, response) => response.writeHead(200, { 'content-encoding': encoding }).end(png) }
    const response = await ask(image(`${origin}/odd`))
    expect([response.status, (await errorOf(response)).message]).toEqual([400, expect.stringMatching(message)])
  })
})

describe('frames in one data URL, as vLLM’s clients send a video', () => {
  const jpeg = async (size: number, noise: boolean) => {
    const background = { width: size, height: size, channels: 3, background: COLOUR } as const
    const picture = sharp({
      create: { ...background, ...(noise && { noise: { type: 'gaussian', mean: 99, sigma: 60 } }) },
    })
    return (await picture.jpeg({ quality: 95 }).toBuffer()).toString('base64')
  }
  const joined = (frames: readonly string[]) => ({
    type: 'video_url',
    video_url: { url: `data:video/jpeg;base64,${frames.join(',')}` },
  })
  const apart = (frames: readonly string[]) => ({
    type: 'video_frames',
    video_frames: {
      frames: frames.map((data, second) => ({
        image_url: { url: `data:image/jpeg;base64,${data}` },
        timestamp_ms: 1000 * second,
      })),
    },
  })
  const shown = async (response: Response) => {
    expect(response.status, await response.clone().text()).toBe(200)
    return engine.works.at(-1)
  }

  test.each([
    ['small', 64, false],
    ['large', 320, true],
  ] as const)('%s ones are a second apart', async (_size, size, noise) => {
    const frames = await Promise.all(Array.from({ length: 3 }, () => jpeg(size, noise)))
    const parts = async (part: object) => (await shown(await ask(part)))!.prefix
    expect(await parts(joined(frames))).toEqual(await parts(apart(frames)))
    const context = [{ role: 'user', content: [joined(frames)] }]
    await shown(await server.post('/v1/chat/completions/multilook', { model, context, prompts: ['What?'] }))
    const input = [{ role: 'user', content: [joined(frames)] }]
    await shown(await server.post('/v1/responses', { model, input, store: true }))
  })

  test.each([
    [1, 'video_url.url', /2 to 256 frames, separated by commas/],
    [257, 'video_url.url', /2 to 256 frames, separated by commas/],
    [2, 'video_url', /not valid base64/],
  ])('%i wrong ones are rejected by name', async (count, param, message) => {
    const response = await ask(joined(Array.from({ length: count }, () => '***')))
    expect(response.status).toBe(400)
    const error = { param: `messages[0].content[0].${param}`, message: expect.stringMatching(message) }
    expect(await errorOf(response)).toMatchObject(error)
  })
})

describe('a data URL', () => {
  const base64 = (bytes: Uint8Array) => Buffer.from(bytes).toString('base64')
  const percent = (bytes: Uint8Array) => [...bytes].map((byte) => `%${byte.toString(16).padStart(2, '0')}`).join('')
  /** How clients write the same bytes. */
  const spellings: [string, (bytes: Uint8Array) => string][] = [
    ['as usual', (bytes) => `data:image/png;base64,${base64(bytes)}`],
    ['without a type', (bytes) => `data:;base64,${base64(bytes)}`],
    ['in capitals', (bytes) => `DATA:IMAGE/PNG;BASE64,${base64(bytes)}`],
    ['with a blank before base64', (bytes) => `data:image/png; base64,${base64(bytes)}`],
    ['with blanks around base64', (bytes) => `data:image/png;  base64 ,${base64(bytes)}`],
    ['with a blank at the start', (bytes) => ` data:image/png;base64,${base64(bytes)}\n`],
    ['with a parameter', (bytes) => `data:image/png;charset=utf-8;base64,${base64(bytes)}`],
    ['with codecs, as FileReader writes them', (bytes) => `data:video/webm;codecs=vp8,opus;base64,${base64(bytes)}`],
    ['with quoted codecs', (bytes) => `data:video/webm;codecs="vp8, opus";base64,${base64(bytes)}`],
    ['with a quoted file name', (bytes) => `data:image/png;name="a,b;c.png";base64,${base64(bytes)}`],
    ['with percent signs', (bytes) => `data:image/png;base64,${encodeURIComponent(base64(bytes))}`],
    ['in lines', (bytes) => `data:image/png;base64,\r\n${base64(bytes).replace(/.{76}/g, '$&\r\n')}`],
    ['without padding', (bytes) => `data:image/png;base64,${base64(bytes).replace(/=+$/, '')}`],
    ['in the URL-safe alphabet', (bytes) => `data:image/png;base64,${Buffer.from(bytes).toString('base64url')}`],
    ['with a fragment', (bytes) => `data:image/png;base64,${base64(bytes)}#t=1`],
    ['without base64', (bytes) => `data:image/png,${percent(bytes)}`],
    ['without base64 and type, in lines', (bytes) => `data:,${percent(bytes).replace(/.{90}/g, '$&\n')}#a`],
  ]

  const audio = (data: string) => ({ type: 'input_audio', input_audio: { data, format: 'wav' } })
  const places: [string, (url: string) => Promise<Response>, () => Uint8Array][] = [
    ['image_url', (url) => ask(image(url)), () => png],
    ['video_url', (url) => ask({ type: 'video_url', video_url: { url } }), () => webm],
    ['audio_url', (url) => ask({ type: 'audio_url', audio_url: { url } }), () => wav],
    ['input_audio', (url) => ask(audio(url)), () => wav],
    [
      'video_frames',
      (url) => {
        const frames = [0, 500].map((timestamp_ms) => ({ image_url: { url }, timestamp_ms }))
        return ask({ type: 'video_frames', video_frames: { frames } })
      },
      () => png,
    ],
    ...(['input_image', 'input_file', 'input_video'] as const).map((type): (typeof places)[number] => {
      const key = { input_image: 'image_url', input_file: 'file_data', input_video: 'video_url' }[type]
      const answer = (url: string) => {
        const input = [{ role: 'user', content: [{ type, [key]: url }] }]
        return server.post('/v1/responses', { model, input, store: false })
      }
      return [type, answer, () => (type === 'input_video' ? webm : png)]
    }),
    [
      'a multilook',
      (url) => {
        const context = [{ role: 'user', content: [image(url)] }]
        return server.post('/v1/chat/completions/multilook', { model, context, prompts: ['What?'] })
      },
      () => png,
    ],
    [
      'a detect',
      (url) => server.post('/v1/detect', { media: { type: 'image', image_url: url }, categories: ['a'] }),
      () => png,
    ],
    [
      'a message',
      (url) => {
        const source = { type: 'base64', media_type: 'image/png', data: url }
        const messages = [{ role: 'user', content: [{ type: 'image', source }] }]
        return server.post('/v1/messages', { model, max_tokens: 10, messages })
      },
      () => png,
    ],
    [
      'a message, as a URL',
      (url) => {
        const messages = [{ role: 'user', content: [{ type: 'image', source: { type: 'url', url } }] }]
        return server.post('/v1/messages', { model, max_tokens: 10, messages })
      },
      () => png,
    ],
    [
      'an Ollama chat',
      (url) => {
        const messages = [{ role: 'user', content: 'What?', images: [url] }]
        return server.post('/api/chat', { model, stream: false, messages })
      },
      () => png,
    ],
  ]

  test.each(spellings)('%s, wherever media may be', async (_name, spell) => {
    for (const [place, send, bytes] of places) {
      expect([place, (await seen(await send(spell(bytes())))) > 0]).toEqual([place, true])
    }
  })

  test('a large one, which is decoded with the body', async () => {
    const noise = Buffer.from(Array.from({ length: 256 * 256 * 3 }, (_, i) => (i * 7919) % 251))
    const large = await sharp(noise, { raw: { width: 256, height: 256, channels: 3 } })
      .png({ compressionLevel: 0 })
      .toBuffer()
    for (const [name, spell] of spellings) expect([name, await seen(await ask(image(spell(large))))]).toEqual([name, 1])
  })

  test.each([
    ['data:image/png;base64', /must have the form data:<type>;base64,<data>/],
    ['data:', /must have the form/],
    ['data:,', /The data is empty/],
    ['data:image/png;base64,', /The data is empty/],
    ['data:image/png;base64,%%%', /not valid base64/],
    ['data:image/png;base64,iVBORw0KG!', /not valid base64/],
    ['data:image/png,iVBORw0KGgo', /the data is an unknown type/],
    ['data:image/svg+xml;utf8,<svg xmlns="a"><image href="data:image/png;base64,AAAA"/></svg>', /image\/svg\+xml/],
    ['data:image/svg+xml;charset=utf-8,%3Csvg a%3D"data:image/png;base64,AAAA"%3E', /image\/svg\+xml/],
  ])('%s is refused with a reason', async (url, message) => {
    const response = await ask(image(url))
    expect([response.status, await errorOf(response)]).toEqual([
      400,
      expect.objectContaining({
        param: 'messages[0].content[0].image_url.url',
        message: expect.stringMatching(message),
      }),
    ])
  })

  test.each(['image/jpg', 'image/pjpeg', 'image/x-png', 'image/jpeg', 'application/octet-stream'])(
    'and a message of the type %s: its bytes say what it is',
    async (media_type) => {
      const content = [{ type: 'image', source: { type: 'base64', media_type, data: base64(png) } }]
      const body = { model, max_tokens: 10, messages: [{ role: 'user', content }] }
      expect(await seen(await server.post('/v1/messages', body))).toBe(1)
      expect(colour()).toEqual(Object.values(COLOUR))
    },
  )
})

test('a video whose container has pixels that are not square is as wide as players show it', async () => {
  const frame = { width: 64, height: 128, data: new Uint8Array(64 * 128 * 3) }
  const video = await makeVideo({ format: 'webm', frames: [frame, frame], pixelAspect: { num: 4, den: 1 } })
  const url = `data:;base64,${video.toString('base64')}`
  expect(await seen(await ask({ type: 'video_url', video_url: { url } }))).toBeGreaterThan(0)
  const shown = engine.works.at(-1)!.prefix.flatMap((part) => (part.type === 'frames' ? part.frames : []))
  expect(shown.map(({ width, height }) => width / height)).toEqual([2, 2])
})

/** The colour of the middle of the first frame in the prompt. */
async function filmed(video: VideoSpec): Promise<number[]> {
  const url = `data:;base64,${(await makeVideo(video)).toString('base64')}`
  expect(await seen(await ask({ type: 'video_url', video_url: { url } }))).toBeGreaterThan(0)
  const [{ width, height, data }] = engine.works
    .at(-1)!
    .prefix.flatMap((part) => (part.type === 'frames' ? part.frames : [])) as [RgbImage]
  const at = (Math.floor(height / 2) * width + Math.floor(width / 2)) * 3
  return [...data.subarray(at, at + 3)]
}

const plainFrame = (width: number, height: number): RgbImage => ({
  ...{ width, height },
  data: Uint8Array.from({ length: width * height * 3 }, (_, at) => Object.values(COLOUR)[at % 3]!),
})

test('an interlaced video is seen', async () => {
  const frame = plainFrame(128, 96)
  const [red, green, blue] = await filmed({ format: 'mp4', frames: [frame, frame, frame], interlaced: true })
  for (const [value, wanted] of [
    [red, COLOUR.r],
    [green, COLOUR.g],
    [blue, COLOUR.b],
  ] as const)
    expect(Math.abs(value! - wanted)).toBeLessThan(8)
})

test('an interlaced video has no combs, and keeps the detail of what stands still', async () => {
  const [side, white] = [256, 255]
  // A bar that is elsewhere when the second lines are taken, and one of lines that stands still.
  const frame = { width: side, height: side, data: new Uint8Array(side * side * 3) }
  const fill = (from: number, to: number, isRow: (y: number) => boolean) => {
    for (let y = 0; y < side; y++) if (isRow(y)) frame.data.fill(white, (y * side + from) * 3, (y * side + to) * 3)
  }
  fill(32, 80, (y) => y % 2 === 0)
  fill(112, 160, (y) => y % 2 === 1)
  fill(192, 240, (y) => y % 8 < 4)
  const columns = async (interlaced: boolean) => {
    const video = await makeVideo({ format: 'mp4', frames: [frame, frame], interlaced, bitsPerSecond: 20_000_000 })
    const url = `data:;base64,${video.toString('base64')}`
    expect(await seen(await ask({ type: 'video_url', video_url: { url } }))).toBeGreaterThan(0)
    const [shown] = engine.works.at(-1)!.prefix.flatMap((part) => (part.type === 'frames' ? part.frames : []))
    const { width, height, data } = shown as RgbImage
    // The rows in the middle of it.
    return [56, 136, 216].map((at) => {
      const rows = Array.from({ length: height >> 1 }, (_, y) => y + (height >> 2))
      const values = rows.map((y) => data[(y * width + Math.round((at * width) / side)) * 3]!)
      return [Math.min(...values), Math.max(...values)] as const
    })
  }
  const [bar, later, lines] = await columns(true)
  expect(bar![0]).toBeGreaterThan(200)
  expect(later![1]).toBeLessThan(55)
  expect(lines![1] - lines![0]).toBeGreaterThan(150)
  // What is not interlaced remains as it is.
  const [drawn] = await columns(false)
  expect(drawn![0]).toBeLessThan(200)
})

test('a video that names no matrix has that of its size', async () => {
  for (const [width, height, usual, other] of [
    [1280, 720, 1, 5],
    [640, 480, 5, 1],
  ] as const) {
    const frames = [plainFrame(width, height), plainFrame(width, height)]
    const shown = await filmed({ format: 'mp4', frames })
    expect(shown).toEqual(await filmed({ format: 'mp4', frames, matrix: usual }))
    expect(shown).not.toEqual(await filmed({ format: 'mp4', frames, matrix: other }))
  }
})

describe.each(['mp4', 'avif'] as const)('wide colours and high dynamic range that codes name: %s', (format) => {
  /** The middle of a picture or video of one colour. */
  async function shown(rgb: readonly number[], primaries: number, transfer: number): Promise<number[]> {
    const frame = { width: 64, height: 64, data: Uint8Array.from({ length: 64 * 64 * 3 }, (_, at) => rgb[at % 3]!) }
    const video: VideoSpec = { format, frames: [frame], matrix: 5, primaries, transfer }
    if (format === 'mp4') return filmed(video)
    expect(await seen(await ask(image(`data:;base64,${(await makeVideo(video)).toString('base64')}`)))).toBe(1)
    return colour()
  }

  test.each([
    ['sRGB', 1, 13, [200, 50, 50], [200, 50, 50]],
    ['Display P3', 12, 13, [200, 50, 50], EXPECTED_P3],
    ['BT.2020', 9, 14, [128, 128, 128], [128, 128, 128]],
    // White, and what shines five times as bright: the peak of most screens.
    ['PQ', 9, 16, [148, 148, 148], [231, 231, 231]],
    ['PQ, brighter', 9, 16, [191, 191, 191], [251, 251, 251]],
    ['HLG', 9, 18, [191, 191, 191], [231, 231, 231]],
  ])('%s', async (_, primaries, transfer, given, wanted) => {
    const seenColour = await shown(given, primaries, transfer)
    for (const [channel, value] of seenColour.entries()) expect(Math.abs(value - wanted[channel]!)).toBeLessThan(8)
  })
})

test('a JPEG of 12 bits is not called damaged', async () => {
  const jpeg = await sharp(png).jpeg().toBuffer()
  // The precision of its samples.
  jpeg[jpeg.indexOf(Buffer.from([0xff, 0xc0])) + 4] = 12
  const error = await errorOf(await ask(image(`data:;base64,${jpeg.toString('base64')}`)))
  expect(error.message).toContain('The image has a depth or a compression that is not supported')
})

test('a file without bytes is called empty', async () => {
  routes = { '/empty': (_request, response) => response.end() }
  const error = await errorOf(await ask(image(`${origin}/empty`)))
  expect(error).toMatchObject({ message: 'The data is empty', param: 'messages[0].content[0].image_url.url' })
})

/** Light of a value of sRGB, both from 0 to 1. */
function linearOf(value: number): number {
  return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4
}

describe('a profile', () => {
  test.each(['png', 'tiff'] as const)('is followed in a %s of 16 bits', async (format) => {
    const samples = Uint16Array.from({ length: 64 * 64 * 3 }, (_, at) => [200, 50, 50][at % 3]! * 257)
    // The library takes 16 bits to be Display P3 already.
    const bytes = await sharp(samples, { raw: { width: 64, height: 64, channels: 3 } })
      .toColourspace('rgb16')
      .withIccProfile('p3')
      .toFormat(format, { compression: 'lzw' })
      .toBuffer()
    const file_data = `data:;base64,${bytes.toString('base64')}`
    expect(await seen(await ask(format === 'png' ? image(file_data) : { type: 'file', file: { file_data } }))).toBe(1)
    for (const [channel, value] of colour().entries()) expect(Math.abs(value - EXPECTED_P3[channel]!)).toBeLessThan(3)
  })

  test.each([
    ['dark colours', 'RGB ', [12, 20, 30]],
    ['dark colours with transparency', 'RGB ', [12, 20, 30, 255]],
    ['shades', 'GRAY', [64]],
  ] as const)('of linear light is followed in 16 bits: %s', async (_, space, wanted) => {
    const linear = wanted.map((value) => Math.round(65_535 * linearOf(value / 255)))
    const channels = wanted.length as 1 | 3 | 4
    const samples = Uint16Array.from({ length: 64 * 64 * channels }, (_, at) => linear[at % channels]!)
    const raw = sharp(samples, { raw: { width: 64, height: 64, channels } })
    const picture = await raw
      .toColourspace(channels === 1 ? 'grey16' : 'rgb16')
      .png()
      .toBuffer()
    const url = `data:;base64,${inLinearLight(picture, space).toString('base64')}`
    expect(await seen(await ask(image(url)))).toBe(1)
    for (const [channel, value] of colour().entries()) {
      expect(Math.abs(value - (wanted[channel] ?? wanted[0]))).toBeLessThan(3)
    }
  })
})

describe('formats beyond those of the contract', () => {
  const base64 = (bytes: Uint8Array) => Buffer.from(bytes).toString('base64')
  const bytesUrl = (bytes: Uint8Array) => `data:;base64,${base64(bytes)}`

  /** The colours in the middles of the four quarters of the only image in the prompt. */
  function quarters(): number[][] {
    const { image } = engine.works.at(-1)!.prefix.find(({ type }) => type === 'image') as unknown as {
      image: { width: number; height: number; data: Uint8Array }
    }
    const { width, height, data } = image
    return [0.25, 0.75].flatMap((y) =>
      [0.25, 0.75].map((x) => {
        const at = (Math.floor(y * height) * width + Math.floor(x * width)) * 3
        return [...data.subarray(at, at + 3)]
      }),
    )
  }

  const forms: [string, BitmapSpec][] = [
    ['1 bit', { bits: 1 }],
    ['2 bits', { bits: 2 }],
    ['4 bits', { bits: 4 }],
    ['8 bits', { bits: 8 }],
    ['16 bits', { bits: 16 }],
    ['16 bits with masks', { bits: 16, masks: [0xf800, 0x7e0, 0x1f] }],
    ['24 bits', { bits: 24 }],
    ['32 bits', { bits: 32 }],
    ['32 bits with masks', { bits: 32, masks: [0xff, 0xff00, 0xff0000] }],
    ['32 bits with masks of 10 bits', { bits: 32, masks: [0x3ff00000, 0xffc00, 0x3ff] }],
    ['OS/2', { bits: 24, header: 12 }],
    ['OS/2 with 8 bits', { bits: 8, header: 12 }],
    ['from the top', { bits: 24, topDown: true }],
    ['from the top with 4 bits', { bits: 4, topDown: true }],
    ['runs of 8 bits', { bits: 8, runs: true }],
    ['runs of 4 bits', { bits: 4, runs: true }],
    ['runs without a mark at the end', { bits: 8, runs: true, cut: 2 }],
    ['version 3', { bits: 32, header: 56, masks: [0xff0000, 0xff00, 0xff, 0xff000000] }],
    ['version 4', { bits: 32, header: 108, masks: [0xff0000, 0xff00, 0xff, 0xff000000] }],
    ['version 5', { bits: 24, header: 124 }],
    [
      'version 5 that is transparent throughout',
      { bits: 32, header: 124, masks: [0xff0000, 0xff00, 0xff, 0xff000000], alpha: 0 },
    ],
  ]
  test.each(forms)('BMP: %s', async (_name, spec) => {
    expect(await seen(await ask(image(bytesUrl(makeBitmap(spec)))))).toBe(1)
    // One bit has two colours.
    const wanted = spec.bits === 1 ? [QUARTERS[0], QUARTERS[1], QUARTERS[0], QUARTERS[1]] : QUARTERS
    expect(quarters()).toEqual(wanted.map((colour) => [...colour]))
  })

  test('BMP: what is transparent stands on white', async () => {
    const masks = [0xff0000, 0xff00, 0xff, 0xff000000]
    expect(await seen(await ask(image(bytesUrl(makeBitmap({ bits: 32, header: 124, masks, alpha: 0.5 })))))).toBe(1)
    for (const [index, colour] of quarters().entries()) {
      for (const [channel, value] of colour.entries()) {
        expect(Math.abs(value - (255 + QUARTERS[index]![channel]!) / 2)).toBeLessThan(3)
      }
    }
  })

  const whole = makeBitmap({ bits: 24 })
  test.each([
    ['a size beyond the limit', makeBitmap({ bits: 24, width: 2 ** 30, height: 2 ** 30 }), /too large: 1073741824 x/],
    [
      'runs of a size beyond the limit',
      makeBitmap({ bits: 8, runs: true, width: 60_000, height: 60_000 }),
      /too large/,
    ],
    ['a size beyond its bytes', makeBitmap({ bits: 24, width: 4000, height: 4000 }), /damaged or truncated/],
    ['no width', makeBitmap({ bits: 24, width: 0 }), /damaged/],
    ['a negative width', makeBitmap({ bits: 24, width: -98 }), /damaged/],
    ['half of its bytes', whole.subarray(0, whole.length / 2), /damaged or truncated/],
    ['half of its runs', makeBitmap({ bits: 8, runs: true }).subarray(0, 1500), /damaged or truncated/],
    ['half of its header', whole.subarray(0, 30), /damaged/],
    ['a JPEG inside', Buffer.from(whole).fill(4, 30, 31), /compression 4 are not supported: convert it to PNG/],
  ])('BMP with %s is refused', async (_name, bytes, message) => {
    const response = await ask(image(bytesUrl(bytes)))
    expect([response.status, (await errorOf(response)).message]).toEqual([400, expect.stringMatching(message)])
  })

  test('BMP of random bytes is answered or refused, as those of any format are', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...forms),
        fc.array(fc.tuple(fc.nat(70), fc.nat(255)), { maxLength: 4 }),
        async ([, spec], edits) => {
          const bytes = makeBitmap(spec)
          for (const [at, byte] of edits) if (at > 1 && at !== 14) bytes[at] = byte
          expect([200, 400]).toContain((await ask(image(bytesUrl(bytes)))).status)
        },
      ),
      { numRuns: 40 },
    )
  })

  test('AVIF', async () => {
    const avif = await sharp(png).avif({ lossless: true }).toBuffer()
    expect(await seen(await ask(image(bytesUrl(avif))))).toBe(1)
    for (const [channel, value] of colour().entries()) {
      expect(Math.abs(value - Object.values(COLOUR)[channel]!)).toBeLessThan(6)
    }
    const response = await ask(image(bytesUrl(avif.subarray(0, avif.length - 20))))
    expect([response.status, (await errorOf(response)).message]).toEqual([400, expect.stringMatching(/damaged/)])
  })

  test('AVIF whose colours are multiplied by its transparency', async () => {
    const half = { r: 100, g: 25, b: 25, alpha: 128 / 255 }
    const still = await premultipliedAvif(half)
    const frames = Buffer.alloc(28)
    frames.writeUInt32BE(frames.length)
    frames.write('moov\0\0\0\x14stsz', 4, 'latin1')
    frames.writeUInt32BE(3, 24)
    const moving = Buffer.concat([still, frames])
    moving.write('avis', 8, 'latin1')
    for (const [bytes, note] of [
      [still, null],
      [moving, expect.stringContaining('an animation of 3 frames')],
    ] as const) {
      const response = await ask(image(bytesUrl(bytes)))
      expect([await seen(response), response.headers.get('x-lookout-note')]).toEqual([1, note])
      for (const [channel, value] of colour().entries()) {
        expect(Math.abs(value - (Object.values(half)[channel]! + 127))).toBeLessThan(6)
      }
    }
  })

  test('both are uploaded as other images are', async () => {
    for (const [name, type, bytes] of [
      ['a.bmp', 'image/bmp', whole],
      ['a.avif', 'image/avif', await sharp(png).avif().toBuffer()],
    ] as const) {
      const form = new FormData()
      form.set('purpose', 'vision')
      form.set('file', new Blob([new Uint8Array(bytes)], { type }), name)
      const headers = { authorization: `Bearer ${KEY}` }
      const file = await fetch(`${server.url}/v1/files`, { method: 'POST', body: form, headers })
      const { id } = await jsonOf<{ id: string }>(file)
      expect(await seen(await ask({ type: 'image_file_id', image_file_id: { file_id: id } }))).toBe(1)
      expect((await server.get(`/v1/files/${id}/content`)).headers.get('content-type')).toBe(type)
    }
  })

  /** The same sound as RF64 or BW64: its sizes are in a chunk of their own. */
  function asRf64(mark: string): Buffer {
    const ds64 = Buffer.alloc(36)
    ds64.write('ds64', 'latin1')
    ds64.writeUInt32LE(28, 4)
    const from = wav.indexOf('fmt ')
    const data = wav.indexOf('data', from)
    ds64.writeBigUInt64LE(BigInt(wav.length + 28), 8)
    ds64.writeBigUInt64LE(BigInt(wav.readUInt32LE(data + 4)), 16)
    const rest = Buffer.from(wav.subarray(from))
    rest.writeUInt32LE(0xffff_ffff, data - from + 4)
    return Buffer.concat([Buffer.from(`${mark}\xff\xff\xff\xffWAVE`, 'latin1'), ds64, rest])
  }
  const samples = () => {
    const part = engine.works.at(-1)!.prefix.find(({ type }) => type === 'audio') as unknown as {
      samples: Float32Array
    }
    return part.samples
  }

  test.each(['RF64', 'BW64', 'W64'])('%s', async (name) => {
    const tones = Float32Array.from({ length: 16_000 }, (_, i) => tone(i / 16_000))
    const bytes = name === 'W64' ? await makeAudio({ format: 'w64', samples: tones, rate: 16_000 }) : asRf64(name)
    const hear = (data: Uint8Array) =>
      ask({ type: 'input_audio', input_audio: { data: base64(data), format: 'x-wav' } })
    expect(await seen(await hear(wav))).toBe(1)
    const usual = samples()
    expect(await seen(await hear(bytes))).toBe(1)
    expect(samples()).toEqual(usual)
  })

  test.each([
    ['flac', 20],
    ['flac', 3_000],
    ['aac', 3_000],
  ] as const)('%s behind a tag of %i bytes', async (name, size) => {
    const tones = Float32Array.from({ length: 16_000 }, (_, i) => tone(i / 16_000))
    const plain = await makeAudio({ format: name === 'aac' ? 'adts' : name, samples: tones, rate: 16_000 })
    const tag = Buffer.alloc(10 + size)
    tag.write('ID3\x03\0\0', 'latin1')
    tag.set([size >> 7, size & 127], 8)
    const bytes = Buffer.concat([tag, plain])
    const url = bytesUrl(bytes)
    const response = await ask({ type: 'audio_url', audio_url: { url } })
    expect([await seen(response), response.headers.get('x-lookout-note')]).toEqual([1, null])
    const heard = samples()
    expect(await seen(await ask({ type: 'audio_url', audio_url: { url: bytesUrl(plain) } }))).toBe(1)
    expect(heard).toEqual(samples())
    const form = new FormData()
    form.set('purpose', 'vision')
    form.set('file', new Blob([new Uint8Array(bytes)], { type: `audio/${name}` }), `a.${name}`)
    const headers = { authorization: `Bearer ${KEY}` }
    const file = await fetch(`${server.url}/v1/files`, { method: 'POST', body: form, headers })
    const { id } = await jsonOf<{ id: string }>(file)
    expect(await seen(await ask({ type: 'audio_file_id', audio_file_id: { file_id: id } }))).toBe(1)
    expect(samples()).toEqual(heard)
  })

  test('a video of the brand M4V', async () => {
    const frame = plainFrame(64, 64)
    const video = await makeVideo({ format: 'mp4', frames: [frame, frame] })
    video.write('M4V ', 8, 'latin1')
    expect(await seen(await ask({ type: 'video_url', video_url: { url: bytesUrl(video) } }))).toBeGreaterThan(0)
  })

  test.each<[string, Buffer, string]>([
    [
      'image/heic',
      Buffer.from('\0\0\0\x18ftypheic\0\0\0\0mif1heic', 'latin1'),
      'no decoder for HEIC: convert it to PNG or JPEG',
    ],
    ['image/x-icon', Buffer.from([0, 0, 1, 0, 1, 0, 16, 16]), 'convert it to PNG or JPEG'],
    [
      'image/x-tga',
      Buffer.from([0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 64, 0, 64, 0, 24, 32, 0, 0]),
      'convert it to PNG or JPEG',
    ],
    ['image/vnd.adobe.photoshop', Buffer.from('8BPS\0\x01'), 'convert it to PNG or JPEG'],
    ['image/jxl', Buffer.from([0xff, 0x0a, 0xfa]), 'convert it to PNG or JPEG'],
    ['image/jxl', Buffer.from('\0\0\0\x0cJXL \r\n', 'latin1'), 'convert it to PNG or JPEG'],
    ['image/svg+xml', Buffer.from('<svg xmlns="http://www.w3.org/2000/svg"/>'), 'render it to PNG'],
    ['image/tiff', Buffer.from('II*\0', 'latin1'), 'send it in a file part or a document block'],
    ['application/pdf', Buffer.from('%PDF-1.7'), 'send it in a file part or a document block'],
    ['an unknown type', Buffer.from('BM is how this text begins'), 'image/avif'],
  ])('%s is refused, and the error says what to do', async (type, bytes, advice) => {
    const response = await ask(image(bytesUrl(bytes)))
    const message = `Unsupported image: the data is ${type}; supported types are image/png, image/jpeg, image/webp, image/bmp, `
    const error = await errorOf(response)
    expect([response.status, error.message.slice(0, message.length)]).toEqual([400, message])
    expect(error.message).toContain(advice)
  })
})
