import { randomBytes } from 'node:crypto'
import { request } from 'node:http'
import { connect } from 'node:net'
import sharp from 'sharp'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { makePdf } from './support/pdf.ts'
import { errorOf, jsonOf, KEY, startTestServer, type TestServer } from './support/server.ts'

const CHAT = '/v1/chat/completions'
const model = 'service-mk1.5'

let server: TestServer
/** An image of noise, which PNG does not compress: 19 MB in base64. */
let noise: string
/** As large, but quickly decoded: a decoder ignores what follows the end of a picture. */
let picture: string
/** As the one above, of a few hundred kilobytes. */
let smaller: string
beforeAll(async () => {
  // Room for one body of the largest size at a time.
  server = await startTestServer({ environment: { LOOKOUT_BODY_MEMORY: '20' } })
  const [width, height] = [2200, 2150]
  const raw = { width, height, channels: 3 } as const
  const png = await sharp(randomBytes(width * height * 3), { raw })
    .png()
    .toBuffer()
  noise = `data:image/png;base64,${png.toString('base64')}`
  const small = await sharp({ create: { width: 640, height: 480, channels: 3, background: 'blue' } })
    .png()
    .toBuffer()
  const padded = (length: number) =>
    `data:image/png;base64,${Buffer.concat([small, randomBytes(length)]).toString('base64')}`
  picture = padded(png.length)
  smaller = padded(400_000)
  for (const { length } of [noise, picture]) expect(length).toBeGreaterThan(18e6)
})
afterAll(() => server?.close())

const image = (url: string) => ({ type: 'image_url', image_url: { url } })
const user = (...content: unknown[]) => ({ role: 'user', content: [...content, { type: 'text', text: 'What is it?' }] })

function lastPictures() {
  const { prefix, branches } = server.engine.works.at(-1)!
  return [...prefix, ...branches.flatMap(({ suffix }) => suffix)].filter((part) => part.type === 'image')
}

test('chat, multilook and detect accept an image of 19 MB', async () => {
  const chat = await server.post(CHAT, { model, messages: [user(image(noise))] })
  expect(await chat.json()).toMatchObject({ object: 'chat.completion' })
  expect(lastPictures()).toHaveLength(1)
  const multilook = await server.post(`${CHAT}/multilook`, { model, context: [], prompts: [user(image(picture))] })
  expect(await multilook.json()).toMatchObject({ results: [{ prompt_index: 0, completions: [{}] }] })
  expect(lastPictures()).toHaveLength(1)
  server.engine.script = { texts: [''] }
  const detect = await server.post('/v1/detect', { media: { type: 'image', image_url: picture }, categories: ['cat'] })
  expect(await detect.json()).toMatchObject({ detections: [] })
  server.engine.script = {}
})

test('large documents, and large texts of completions, are taken', async () => {
  const padded = Buffer.concat([makePdf([{}]), Buffer.from(`\n%${'x'.repeat(300_000)}`)])
  const document_url = `data:application/pdf;base64,${padded.toString('base64')}`
  server.engine.script = { texts: ['None.'] }
  const read = await server.post('/v1/ocr', { model, document: { type: 'document_url', document_url } })
  expect(await read.json()).toMatchObject({ usage_info: { pages_processed: 1, doc_size_bytes: padded.length } })
  const completion = await server.post('/v1/completions', { model, prompt: 'x'.repeat(300_000) })
  expect((await errorOf(completion)).param).toBe('prompt')
  server.engine.script = {}
})

test('large and small media in one body keep their places', async () => {
  const small = await sharp({ create: { width: 64, height: 32, channels: 3, background: 'red' } })
    .png()
    .toBuffer()
  const frame = (url: string, at: number) => ({ image_url: { url }, timestamp_ms: at })
  const inline = `data:image/png;base64,${small.toString('base64')}`
  const content = user(
    image(inline),
    { type: 'video_frames', video_frames: { frames: [frame(inline, 0), frame(smaller, 5)] } },
    image(inline),
  )
  expect((await server.post(CHAT, { model, messages: [content] })).status).toBe(200)
  const kinds = server.engine.works
    .at(-1)!
    .prefix.map(({ type }) => type)
    .filter((type) => type !== 'text')
  expect(kinds).toEqual(['image', 'frames', 'image'])
})

test.each([60, 80, 100, 120, 150])('an image of %i pixels a side beside a larger one is taken', async (side) => {
  const raw = { width: side, height: side, channels: 3 } as const
  const png = await sharp(randomBytes(side * side * 3), { raw })
    .png()
    .toBuffer()
  const small = `data:image/png;base64,${png.toString('base64')}`
  const response = await server.post(CHAT, { model, messages: [user(image(small), image(smaller))] })
  expect(response.status).toBe(200)
  expect(lastPictures()).toHaveLength(2)
})

test('six concurrent bodies wait for each other, and none is rejected', async () => {
  const body = JSON.stringify({ model, messages: [user(image(picture))] })
  const responses = await Promise.all(Array.from({ length: 6 }, () => server.post(CHAT, body)))
  expect(responses.map(({ status }) => status)).toEqual(Array(6).fill(200))
})

test('a rejected body makes room for the next', async () => {
  for (let i = 0; i < 3; i++) {
    const response = await server.post(CHAT, { model: 'none', messages: [user(image(picture))] })
    expect(response.status).toBe(400)
  }
  expect((await server.post(CHAT, { model, messages: [user(image(picture))] })).status).toBe(200)
})

test.each([
  ['in a message, it fails the request', (url: string) => ({ model, messages: [user(image(url))] }), CHAT],
  ['in an exemplar', (url: string) => exemplar(url), '/v1/detect'],
])('large media that are not base64 are named in the error: %s', async (_name, body, path) => {
  const response = await server.post(path, body(`${smaller}!`))
  expect(await errorOf(response)).toMatchObject({
    message: 'The data is not valid base64',
    param: path === CHAT ? 'messages[0].content[0].image_url.url' : 'exemplars[0].media.image_url',
  })
})

test('large media that are not base64 fail only their own prompt', async () => {
  const prompts = ['What?', user(image(`${smaller}!`))]
  const { results } = await jsonOf<{ results: unknown[] }>(
    await server.post(`${CHAT}/multilook`, { model, context: [], prompts }),
  )
  expect(results).toMatchObject([{ completions: [{}] }, { error: { message: 'The data is not valid base64' } }])
})

function exemplar(url: string) {
  const point_box = { top_left: { x: 0, y: 0 }, bottom_right: { x: 1, y: 1 } }
  const tiny = 'data:image/png;base64,aGVsbG8='
  return {
    media: { type: 'image', image_url: tiny },
    exemplars: [{ media: { type: 'image', image_url: url }, annotations: [{ mention: 'x', point_box }] }],
  }
}

test.each([
  [
    'numbers for parts',
    `{"model": "${model}", "messages": [{"role": "user", "content": [${list('1', 1e6)}]}]}`,
    'messages[0].content',
  ],
  ['empty messages', `{"model": "${model}", "messages": [${list('{}', 1e6)}]}`, 'messages'],
  ['empty tools', `{"model": "${model}", "messages": [], "tools": [${list('{}', 1e6)}]}`, 'tools'],
  ['65,537 messages', `{"model": "${model}", "messages": [${list('{}', 65_537)}]}`, 'messages'],
  [
    '257 tools, all wrong',
    `{"model": "${model}", "messages": [{"role": "user", "content": ""}], "tools": [${list('1', 257)}]}`,
    'tools',
  ],
])('a list that is too long is rejected as a whole: %s', async (_name, body, param) => {
  const response = await server.post(CHAT, body)
  expect([response.status, (await errorOf(response)).param]).toEqual([400, param])
})

function list(item: string, count: number): string {
  return `${`${item},`.repeat(count - 1)}${item}`
}

test('the error for a list of wrong items names the first', async () => {
  const body = `{"model": "${model}", "messages": [{"role": "user", "content": "Hi"}, ${list('{}', 60_000)}]}`
  expect(await errorOf(await server.post(CHAT, body))).toMatchObject({ param: 'messages[1].role' })
})

test('tool parameters stay as written, however large the body is', async () => {
  server.engine.script = { texts: ['Hm.'] }
  const parameters = '{"type":"object",  "properties":{"10":{"type":"number","maximum":1.0e2},"2":{"type":"string"}}}'
  const tool = `{"type": "function", "function": {"name": "f", "parameters": ${parameters}}}`
  const pad = 'x'.repeat(300_000)
  const response = await server.post(
    CHAT,
    `{"model": "${model}", "pad": "${pad}", "messages": [{"role": "user", "content": "Hi"}], "tools": [${tool}]}`,
  )
  expect(response.status).toBe(200)
  const text = server.engine.works
    .at(-1)!
    .prefix.map((part) => (part.type === 'text' ? part.text : ''))
    .join('')
  expect(text).toContain(parameters)
})

test.each([
  ['is accepted', 300_000, 200],
  ['is rejected when it is too long', 21 * 2 ** 20, 413],
])('a body without a declared length %s', async (_name, length, status) => {
  const body = JSON.stringify({ model, messages: [user()], pad: 'x'.repeat(length) })
  const outgoing = request(server.url + CHAT, {
    method: 'POST',
    headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json', 'transfer-encoding': 'chunked' },
  })
  const answered = new Promise<number | undefined>((resolve, reject) => {
    outgoing.on('response', (response) => resolve(response.resume().statusCode)).on('error', reject)
  })
  outgoing.end(body)
  expect(await answered).toBe(status)
})

test('a client that disconnects while waiting or sending makes room', async () => {
  const body = JSON.stringify({ model, messages: [user(image(picture))] })
  for (let i = 0; i < 4; i++) {
    const leaving = new AbortController()
    const headers = { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' }
    const partial = new ReadableStream({
      start: (controller) => controller.enqueue(Buffer.from(body.slice(0, 1e6))),
      pull: () => leaving.abort(),
    })
    const options = { method: 'POST', headers, body: partial, duplex: 'half', signal: leaving.signal } as RequestInit
    await expect(fetch(server.url + CHAT, options)).rejects.toThrow()
  }
  expect((await server.post(CHAT, body)).status).toBe(200)
})

test.each([1_000, 1_000_000])(
  'a client that disconnects within a body of %i bytes is not logged as an error',
  async (length) => {
    const head = `POST ${CHAT} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${KEY}\r\nContent-Type: application/json`
    const socket = connect(Number(new URL(server.url).port), '127.0.0.1')
    const before = server.logs.length
    await new Promise((resolve) => socket.write(`${head}\r\nContent-Length: ${length}\r\n\r\n{"model"`, resolve))
    // After this response, the server has read what was sent before.
    expect((await server.get('/v1/models')).status).toBe(200)
    socket.destroy()
    const lines = () => server.logs.slice(before).map((line) => JSON.parse(line) as { level: number; status?: number })
    await expect.poll(() => lines().some(({ status }) => status === 499)).toBe(true)
    expect(lines().filter(({ level }) => level >= 50)).toEqual([])
  },
)
