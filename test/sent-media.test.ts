import { once } from 'node:events'
import { createServer, type IncomingMessage, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { brotliCompressSync, deflateRawSync, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib'
import sharp from 'sharp'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { MediaLoader } from '../src/media/index.ts'
import { FakeEngine } from './support/fake-engine.ts'
import { type HearingCard, hearingCard } from './support/hearing-card.ts'
import { errorOf, startTestServer, type TestServer } from './support/server.ts'
import { makeAudio, makeVideo, tone } from './support/video.ts'

/** Media as clients send it, and as other servers hand it out. */
const model = 'service-mk1.5'
const COLOUR = { r: 200, g: 50, b: 50 }

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
  const media = new MediaLoader({ allowedHosts: [new URL(origin).host] })
  const environment = { LOOKOUT_MODEL_CARD: card.path, LOOKOUT_OLLAMA: 'on' }
  server = await startTestServer({ engine, media, environment })
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
