import { createReadStream } from 'node:fs'
import { request as httpRequest } from 'node:http'
import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import OpenAI from 'openai'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { KEY, startTestServer, type TestServer } from './support/server.ts'

/** What OpenAI's clients, and those that imitate them, send beside the essentials. */
const model = 'service-mk1.5'
const SHAPES = 'docs/pictures/shapes.png'

let server: TestServer
let strict: TestServer
let client: OpenAI

beforeAll(async () => {
  server = await startTestServer({ environment: { LOOKOUT_COMPATIBILITY: 'openai' } })
  strict = await startTestServer()
  client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: KEY, maxRetries: 0 })
})
afterAll(async () => {
  await server?.close()
  await strict?.close()
})
beforeEach(() => {
  server.engine.works.length = 0
  server.engine.script = { texts: ['One', ' two.'] }
})

describe('bodies without a Content-Length', () => {
  const boundary = 'b'
  const part = (name: string, value: string | Buffer, filename?: string) =>
    Buffer.concat([
      Buffer.from(`--${boundary}\r\nContent-Disposition: form-data; name="${name}"`),
      Buffer.from(`${filename === undefined ? '' : `; filename="${filename}"`}\r\n\r\n`),
      Buffer.from(value),
      Buffer.from('\r\n'),
    ])

  /** Sends pieces as chunks, as long as the server takes them. */
  async function send(to: TestServer, path: string, type: string, pieces: Iterable<Buffer>) {
    const { promise, resolve, reject } = Promise.withResolvers<{ status: number; body: string }>()
    const outgoing = httpRequest(to.url + path, {
      method: 'POST',
      headers: { authorization: `Bearer ${KEY}`, 'content-type': type },
    })
    outgoing.on('response', async (response) => {
      resolve({ status: response.statusCode!, body: await text(response) })
    })
    outgoing.on('error', reject)
    Readable.from(pieces).pipe(outgoing)
    return promise
  }
  const upload = (to: TestServer, pieces: Iterable<Buffer>) =>
    send(to, '/v1/files', `multipart/form-data; boundary=${boundary}`, pieces)

  test('the official client uploads a stream of a file', async () => {
    const file = await client.files.create({ file: createReadStream(SHAPES), purpose: 'vision' })
    expect(file).toMatchObject({ object: 'file', filename: 'shapes.png', purpose: 'vision' })
    const content = await client.files.content(file.id)
    expect(content.headers.get('content-type')).toBe('image/png')
    await client.files.delete(file.id)
  })

  test('a form in chunks is kept, and its quota counts what arrived', async () => {
    const png = Buffer.concat([Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'), Buffer.alloc(300_000)])
    const pieces = [part('purpose', 'vision'), part('file', png, 'a.png'), Buffer.from(`--${boundary}--\r\n`)]
    const { status, body } = await upload(server, pieces)
    expect([status, JSON.parse(body)]).toEqual([200, expect.objectContaining({ bytes: png.length, filename: 'a.png' })])
    await client.files.delete(JSON.parse(body).id)
  })

  test('the contract requires the length', async () => {
    const { status, body } = await upload(strict, [part('purpose', 'vision'), Buffer.from(`--${boundary}--\r\n`)])
    expect([status, JSON.parse(body).error.message]).toEqual([411, 'The Content-Length header is required for uploads'])
  })

  test.each([
    [
      'a file',
      part('file', Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'), 'a.png').subarray(0, -2),
      /larger than 128 MiB/,
    ],
    ['a preamble', Buffer.from('before the form\r\n'), /larger than 200 MiB/],
  ])('%s that never ends is refused at its limit', async (_name, head, message) => {
    function* endless() {
      yield head
      for (;;) yield Buffer.alloc(2 ** 20)
    }
    const { status, body } = await upload(server, endless())
    expect([status, JSON.parse(body).error.message]).toEqual([413, expect.stringMatching(message)])
  })

  test.each(['contract', 'openai'])('a chat in chunks is answered (%s), and refused at its limit', async (mode) => {
    const to = mode === 'openai' ? server : strict
    const body = Buffer.from(JSON.stringify({ model, messages: [{ role: 'user', content: 'Hi' }] }))
    const pieces = Array.from({ length: 10 }, (_, i) =>
      body.subarray((i * body.length) / 10, ((i + 1) * body.length) / 10),
    )
    expect((await send(to, '/v1/chat/completions', 'application/json', pieces)).status).toBe(200)
    function* endless() {
      for (;;) yield Buffer.alloc(2 ** 20, ' ')
    }
    expect((await send(to, '/v1/chat/completions', 'application/json', endless())).status).toBe(413)
  })
})
