import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { readdir, readFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { join } from 'node:path'
import Anthropic, { toFile as anthropicFile } from '@anthropic-ai/sdk'
import { sql } from 'drizzle-orm'
import OpenAI, { toFile } from 'openai'
import { afterAll, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest'
import { TestAccounts } from './support/accounts.ts'
import { errorOf, jsonOf, startTestServer, type TestServer } from './support/server.ts'

let server: TestServer
let accounts: TestAccounts
let key: string
let png: Buffer
beforeAll(async () => {
  png = await readFile(new URL('../docs/pictures/shapes.png', import.meta.url))
  accounts = await TestAccounts.open()
  server = await startTestServer()
})
beforeEach(async () => {
  key = (await accounts.organisation()).key
})
afterAll(async () => {
  await server?.close()
  await accounts?.close()
})

interface File {
  object: 'file'
  id: string
  bytes: number
  created_at: number
  filename: string
  purpose: string
}
interface Page {
  object: 'list'
  data: File[]
  first_id: string
  last_id: string
  has_more: boolean
}

const call = (path: string, init: RequestInit = {}, as = key) =>
  fetch(server.url + path, { ...init, headers: { authorization: `Bearer ${as}`, ...init.headers } })

function form(parts: Record<string, string | { bytes: Uint8Array; name?: string; type?: string }>): FormData {
  const data = new FormData()
  for (const [name, part] of Object.entries(parts)) {
    if (typeof part === 'string') data.append(name, part)
    else data.append(name, new Blob([new Uint8Array(part.bytes)], { type: part.type ?? '' }), part.name ?? 'a.png')
  }
  return data
}

const upload = (parts: Parameters<typeof form>[0], as = key) =>
  call('/v1/files', { method: 'POST', body: form(parts) }, as)

async function uploaded(bytes: Uint8Array = png, as = key): Promise<File> {
  const response = await upload({ purpose: 'vision', file: { bytes } }, as)
  expect(response.status).toBe(200)
  return jsonOf<unknown>(response) as Promise<File>
}

/** A copy of the image with other bytes: decoders ignore what follows its end. */
const distinct = () => Buffer.concat([png, randomBytes(8)])

describe('a file', () => {
  test('comes back as it was sent, until it is deleted', async () => {
    const before = Math.floor(Date.now() / 1000)
    const response = await upload({ file: { bytes: png, name: 'shapes of päper.png' }, purpose: 'user_data' })
    expect(response.status).toBe(200)
    expect(response.headers.get('x-trace-id')).toMatch(/^[0-9a-f]{32}$/)
    const file = (await response.json()) as File
    expect(Object.keys(file)).toEqual(['object', 'id', 'bytes', 'created_at', 'filename', 'purpose'])
    expect(file).toMatchObject({
      object: 'file',
      id: expect.stringMatching(/^file-[0-9A-Za-z]{22}$/),
      bytes: png.length,
      filename: 'shapes of päper.png',
      purpose: 'user_data',
    })
    expect(file.created_at).toBeGreaterThanOrEqual(before)
    expect(file.created_at).toBeLessThanOrEqual(Math.ceil(Date.now() / 1000))

    expect(await (await call(`/v1/files/${file.id}`)).json()).toEqual(file)
    const content = await call(`/v1/files/${file.id}/content`)
    expect(content.status).toBe(200)
    expect(Object.fromEntries(content.headers)).toMatchObject({
      'content-type': 'image/png',
      'content-length': String(png.length),
      'accept-ranges': 'bytes',
      'x-content-type-options': 'nosniff',
      'content-security-policy': "default-src 'none'; sandbox",
      'content-disposition': `attachment; filename="shapes of p_per.png"; filename*=UTF-8''shapes%20of%20p%C3%A4per.png`,
    })
    expect(Buffer.from(await content.arrayBuffer()).equals(png)).toBe(true)

    const deleted = await call(`/v1/files/${file.id}`, { method: 'DELETE' })
    expect(deleted.status).toBe(200)
    expect(await deleted.json()).toEqual({ object: 'file', id: file.id, deleted: true })
    for (const [method, path] of [
      ['GET', ''],
      ['GET', '/content'],
      ['DELETE', ''],
    ] as const) {
      const missing = await call(`/v1/files/${file.id}${path}`, { method })
      expect(missing.status).toBe(404)
      expect(await errorOf(missing)).toEqual({
        message: `No such File object: ${file.id}`,
        type: 'invalid_request_error',
        param: 'id',
        code: null,
      })
    }
  })

  test('is uploaded, read and deleted with the OpenAI client', async () => {
    const client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: key, maxRetries: 0 })
    const file = await client.files.create({ file: await toFile(png, 'shapes.png'), purpose: 'vision' })
    expect((await client.files.retrieve(file.id)).filename).toBe('shapes.png')
    const listed: string[] = []
    for await (const { id } of client.files.list()) listed.push(id)
    expect(listed).toEqual([file.id])
    expect(Buffer.from(await (await client.files.content(file.id)).arrayBuffer()).equals(png)).toBe(true)
    expect((await client.files.delete(file.id)).deleted).toBe(true)
  })

  test('is uploaded, listed and deleted with Anthropic’s client, which says no purpose', async () => {
    const client = new Anthropic({ baseURL: server.url, apiKey: key, maxRetries: 0 })
    const { files } = client.beta
    const kept = await files.upload({ file: await anthropicFile(png, 'shapes.png', { type: 'image/png' }) })
    expect(kept).toMatchObject({ type: 'file', filename: 'shapes.png', mime_type: 'image/png', size_bytes: png.length })
    expect(Math.abs(Date.parse(kept.created_at) - Date.now())).toBeLessThan(60_000)
    expect(await files.retrieveMetadata(kept.id)).toEqual(kept)
    // The client for Ruby sends no length.
    const form = new FormData()
    form.set('file', new Blob([png]), 'b.png')
    const { body, headers } = new Response(form)
    const type = { 'content-type': headers.get('content-type')!, 'anthropic-version': '2023-06-01' }
    const chunked = { method: 'POST', body, duplex: 'half', headers: type } as RequestInit
    const other = await jsonOf<{ id: string }>(await call('/v1/files', chunked))
    const listed = []
    for await (const file of files.list({ limit: 1 })) listed.push(file.id)
    expect(listed).toEqual([other.id, kept.id])
    // The clients in other languages page as all other lists of Anthropic's API do.
    const page = (query: object) => client.get('/v1/files', { query })
    const last = { has_more: true, first_id: null, last_id: other.id }
    expect(await page({ limit: 1 })).toMatchObject(last)
    expect(await page({ limit: 1, after_id: other.id })).toMatchObject({ data: [kept], has_more: false })
    await expect(page({ before_id: kept.id })).rejects.toMatchObject({ status: 400 })
    await expect(files.list({ ids: [kept.id] })).rejects.toMatchObject({ status: 400, type: 'invalid_request_error' })
    const expiring = { file: await anthropicFile(png, 'c.png', { type: 'image/png' }), expires_in_seconds: 3600 }
    await expect(files.upload(expiring)).rejects.toThrow(/expires_in_seconds is not supported/)
    expect(Buffer.from(await (await files.download(kept.id)).arrayBuffer())).toEqual(png)
    expect(await files.delete(kept.id)).toEqual({ type: 'file_deleted', id: kept.id })
    await expect(files.retrieveMetadata(kept.id)).rejects.toMatchObject({
      status: 404,
      error: { type: 'error', error: { type: 'not_found_error', message: `id: No such File object: ${kept.id}` } },
    })
    expect(await jsonOf(await call(`/v1/files/${other.id}`))).toMatchObject({ object: 'file', purpose: 'user_data' })
  })

  test('for OCR has what Mistral’s clients need, and an address that the server takes', async () => {
    const file = await jsonOf<File>(await upload({ purpose: 'ocr', file: { bytes: png } }))
    expect(file).toMatchObject({ purpose: 'ocr', sample_type: 'ocr_input', source: 'upload', deleted: false })
    const heard = await jsonOf<File>(await upload({ purpose: 'audio', file: { bytes: png } }))
    expect(heard).toMatchObject({ purpose: 'audio', sample_type: 'audio_input', source: 'upload' })
    const { url } = await jsonOf<{ url: string }>(await call(`/v1/files/${file.id}/url?expiry=24`))
    expect(url).toBe(`${server.url}/v1/files/${file.id}/content`)
    const document = { type: 'image_url', image_url: url }
    const read = await call('/v1/ocr', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'service-mk1.5', document }),
    })
    expect(read.status).toBe(200)
    expect((await call('/v1/files/file-none/url')).status).toBe(404)
  })

  test('with an expiry is rejected: files do not expire', async () => {
    const client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: key, maxRetries: 0 })
    const file = await toFile(png, 'shapes.png')
    const expires_after = { anchor: 'created_at', seconds: 3600 } as const
    await expect(client.files.create({ file, purpose: 'vision', expires_after })).rejects.toMatchObject({
      status: 400,
      param: 'expires_after',
    })
    expect(await (await call('/v1/files')).json()).toMatchObject({ data: [] })
  })

  test('of another organisation does not exist', async () => {
    const file = await uploaded()
    const other = (await accounts.organisation()).key
    for (const [method, path] of [
      ['GET', ''],
      ['GET', '/content'],
      ['DELETE', ''],
    ] as const) {
      const response = await call(`/v1/files/${file.id}${path}`, { method }, other)
      expect(response.status).toBe(404)
      expect((await errorOf(response)).message).toBe(`No such File object: ${file.id}`)
    }
    expect(await (await call('/v1/files', {}, other)).json()).toMatchObject({ data: [] })
    expect((await call(`/v1/files/${file.id}`)).status).toBe(200)
  })

  test.each(['file-1', 'nothing', `file-${'0'.repeat(22)}`, 'file-%2e%2e%2f%2e%2e%2fetc', '__proto__'])(
    'that is none: %s',
    async (id) => {
      const response = await call(`/v1/files/${id}/content`)
      expect(response.status).toBe(404)
      expect((await errorOf(response)).message).toBe(`No such File object: ${decodeURIComponent(id)}`)
    },
  )

  test('is downloaded in ranges', async () => {
    const { id } = await uploaded()
    const part = async (range: string, headers: Record<string, string> = {}) => {
      const response = await call(`/v1/files/${id}/content`, { headers: { range, ...headers } })
      const bytes = Buffer.from(await response.arrayBuffer())
      return { status: response.status, range: response.headers.get('content-range'), bytes }
    }
    const end = png.length - 1
    expect(await part('bytes=0-9')).toEqual({
      status: 206,
      range: `bytes 0-9/${png.length}`,
      bytes: png.subarray(0, 10),
    })
    expect(await part('bytes=-5')).toMatchObject({ status: 206, range: `bytes ${end - 4}-${end}/${png.length}` })
    expect(await part(`bytes=${end}-`)).toMatchObject({ status: 206, bytes: png.subarray(end) })
    expect(await part(`bytes=10-${end + 100}`)).toMatchObject({ status: 206, bytes: png.subarray(10) })
    expect(await part(`bytes=${end + 1}-`)).toMatchObject({ status: 416, range: `bytes */${png.length}` })
    expect(await part('bytes= 2 - 5 ')).toMatchObject({ status: 206, bytes: png.subarray(2, 6) })
    // The last one may be read in many ways, which others would wait for.
    const blank = ' '.repeat(4_000)
    for (const header of [
      'bytes=5-2',
      'bytes=0-1,3-4',
      'items=0-1',
      'bytes=-',
      'bytes=a-b',
      `bytes=${blank}-${blank}x`,
    ]) {
      expect(await part(header)).toMatchObject({ status: 200, range: null })
    }
    expect(await part('bytes=0-9', { 'if-range': `"${id}"` })).toMatchObject({ status: 206 })
    expect(await part('bytes=0-9', { 'if-range': '"other"' })).toMatchObject({ status: 200 })
    for (const [known, status] of [
      [`"${id}"`, 304],
      [`"other", W/"${id}"`, 304],
      ['*', 304],
      ['"other"', 200],
    ] as const) {
      const again = await part('bytes=1-', { 'if-none-match': known, 'if-range': '"other"' })
      expect([again.status, again.bytes.length]).toEqual([status, status === 200 ? png.length : 0])
    }
    const head = await call(`/v1/files/${id}/content`, { method: 'HEAD' })
    expect(head.status).toBe(200)
    expect(head.headers.get('content-length')).toBe(String(png.length))
    expect(head.headers.get('content-type')).toBe('image/png')
  })
})

describe('uploads', () => {
  const head = (text: string) => Buffer.from(text, 'latin1')
  test.each([
    ['image/png', '\x89PNG\r\n\x1a\n----'],
    ['image/jpeg', '\xff\xd8\xff\xe0----'],
    ['image/webp', 'RIFF----WEBPVP8 '],
    ['video/mp4', '\0\0\0\x18ftypisom----'],
    ['video/quicktime', '\0\0\0\x14ftypqt  ----'],
    ['video/webm', '\x1aE\xdf\xa3\x9fB\x86\x81\x01B\x82\x84webm'],
    ['audio/wav', 'RIFF----WAVEfmt '],
    ['audio/mpeg', 'ID3\x04----'],
    ['audio/flac', 'fLaC----'],
    ['audio/mp4', '\0\0\0\x1cftypM4A ----'],
    ['audio/ogg', 'OggS\0\x02------'],
    ['audio/aac', '\xff\xf1\x50\x80----'],
  ])('%s is detected from the bytes', async (type, text) => {
    const { id } = await uploaded(head(text))
    const content = await call(`/v1/files/${id}/content`)
    expect(content.headers.get('content-type')).toBe(type)
    expect(Buffer.from(await content.arrayBuffer()).toString('latin1')).toBe(text)
  })

  test.each([
    ['audio/webm; codecs=opus', '\x1aE\xdf\xa3\x9fB\x86\x81\x01B\x82\x84webm', 'audio/webm'],
    ['audio/x-m4a', '\0\0\0\x1cftypM4A ----', 'audio/mp4'],
    ['audio/mp4', '\0\0\0\x18ftypisom----', 'audio/mp4'],
    ['video/mp4', '\0\0\0\x1cftypM4A ----', 'audio/mp4'],
    ['audio/x-m4a', '\0\0\0\x14ftypqt  ----', 'video/quicktime'],
    ['application/ogg', 'OggS\0\x02------', 'audio/ogg'],
    ['audio/aacp', '\xff\xf1\x50\x80----', 'audio/aac'],
    ['audio/vnd.dlna.adts', '\xff\xf1\x50\x80----', 'audio/aac'],
    ['audio/3gpp', '\0\0\0\x18ftyp3gp4----', 'audio/mp4'],
    ['video/3gpp', '\0\0\0\x18ftyp3gp4----', 'video/mp4'],
  ])('a sound that is declared as %s', async (declared, text, type) => {
    const response = await upload({ purpose: 'vision', file: { bytes: head(text), type: declared } })
    const { id } = await jsonOf<{ id: string }>(response)
    const content = await call(`/v1/files/${id}/content`)
    expect(content.headers.get('content-type')).toBe(type)
  })

  test.each([
    [
      'an unsupported type',
      { file: { bytes: head('GIF89a------') }, purpose: 'vision' },
      400,
      'file',
      /^Unsupported content type 'image\/gif'.*image\/jpeg.*video\/webm/,
    ],
    [
      'an unknown type',
      { file: { bytes: head('hello there'), type: 'application/zip' }, purpose: 'vision' },
      400,
      'file',
      /^Unsupported content type 'application\/zip'/,
    ],
    [
      'a type that is not declared',
      { file: { bytes: head('hello there') }, purpose: 'vision' },
      400,
      'file',
      /^Unsupported content type 'application\/octet-stream'/,
    ],
    [
      'a text',
      { file: { bytes: head('hello there'), type: 'text/plain; charset=utf-8' }, purpose: 'vision' },
      400,
      'file',
      /^Unsupported content type 'text\/plain'\. Supported types: image\/png/,
    ],
    [
      'an unsupported type, declared as text',
      { file: { bytes: head('GIF89a------'), type: 'text/plain' }, purpose: 'vision' },
      400,
      'file',
      /^Unsupported content type 'image\/gif'\. Supported/,
    ],
    [
      'a wrong declaration',
      { file: { bytes: head('\x89PNG\r\n\x1a\n'), type: 'image/jpeg' }, purpose: 'vision' },
      400,
      'file',
      /declared as 'image\/jpeg' but is 'image\/png'/,
    ],
    [
      'a wrong declaration of bytes that are nothing known',
      { file: { bytes: head('hello there'), type: 'image/png; charset=binary' }, purpose: 'vision' },
      400,
      'file',
      /^The file is declared as 'image\/png' but its bytes are of an unknown type$/,
    ],
    [
      'a wrong declaration of a type that is not supported',
      { file: { bytes: head('GIF89a------'), type: 'image/jpg' }, purpose: 'vision' },
      400,
      'file',
      /^Unsupported content type 'image\/gif' \(declared as 'image\/jpg'\)\. Supported types: /,
    ],
    [
      'a video that is declared as a sound of another container',
      { file: { bytes: head('\0\0\0\x18ftypisom----'), type: 'audio/mpeg' }, purpose: 'user_data' },
      400,
      'file',
      /^The file is declared as 'audio\/mpeg' but is 'video\/mp4'$/,
    ],
    [
      'FLAC that is declared as MP3',
      { file: { bytes: head('fLaC----'), type: 'audio/mpeg' }, purpose: 'user_data' },
      400,
      'file',
      /^The file is declared as 'audio\/mpeg' but is 'audio\/flac'$/,
    ],
    [
      'MP3 without a tag that is declared as FLAC',
      { file: { bytes: head('\xff\xfb\x90\x64----'), type: 'audio/flac' }, purpose: 'user_data' },
      400,
      'file',
      /^The file is declared as 'audio\/flac' but is 'audio\/mpeg'$/,
    ],
    [
      'lines of a batch that are declared as an image',
      { file: { bytes: head('{"custom_id": "a"}\n'), type: 'image/png' }, purpose: 'batch' },
      400,
      'file',
      /^The file is declared as 'image\/png' but its bytes are of an unknown type$/,
    ],
    [
      'an image that is declared as the lines of a batch',
      { file: { bytes: head('\x89PNG\r\n\x1a\n'), type: 'application/jsonl' }, purpose: 'batch' },
      400,
      'file',
      /^The file is declared as 'application\/jsonl' but is 'image\/png'$/,
    ],
    ['an empty file', { file: { bytes: head('') }, purpose: 'vision' }, 400, 'file', /empty/],
    ['no file', { purpose: 'vision' }, 400, 'file', /one file/],
    ['no purpose', { file: { bytes: head('\x89PNG\r\n\x1a\n') } }, 400, 'purpose', /required/],
    [
      'another purpose',
      { file: { bytes: head('\x89PNG\r\n\x1a\n') }, purpose: 'assistants' },
      400,
      'purpose',
      /'vision' or 'user_data'/,
    ],
    [
      'a purpose that every object has',
      { file: { bytes: head('\x89PNG\r\n\x1a\n') }, purpose: 'constructor' },
      400,
      'purpose',
      /'vision'/,
    ],
  ])('rejected: %s', async (_name, parts, status, param, message) => {
    const response = await upload(parts)
    expect(response.status).toBe(status)
    expect(await errorOf(response)).toMatchObject({
      type: 'invalid_request_error',
      param,
      message: expect.stringMatching(message),
    })
    expect(await (await call('/v1/files')).json()).toMatchObject({ data: [] })
  })

  test('rejected before they are complete get the error and keep their connection', async () => {
    const { hostname, port } = new URL(server.url)
    const socket = connect(Number(port), hostname)
    let received = ''
    socket.on('data', (data) => {
      received += data
    })
    const part = '--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\nhello'
    const rest = 3 * 2 ** 20
    const request = (length: number) =>
      `POST /v1/files HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: ${length}\r\n\r\n`
    // Enough to detect the type; the rest is sent after the file has been rejected.
    const first = part + 'x'.repeat(100_000)
    socket.write(request(first.length + rest) + first)
    await expect.poll(() => received).toMatch(/^HTTP\/1\.1 400 .*Unsupported content type/s)
    expect(await drafts()).toBe(0)
    received = ''
    socket.write('x'.repeat(rest))
    socket.write(`GET /v1/files HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n\r\n`)
    await expect.poll(() => received).toMatch(/^HTTP\/1\.1 200 .*"data":\[\]/s)
    socket.destroy()
  })

  test('may declare the right type or none', async () => {
    for (const type of ['image/png', 'IMAGE/X-PNG', 'application/octet-stream', 'text/plain', '']) {
      expect((await upload({ purpose: 'vision', file: { bytes: png, type } })).status).toBe(200)
    }
  })

  test('without a name are named by their id; a path is reduced to its last part', async () => {
    const send = async (disposition: string) => {
      const body = Buffer.concat([
        head(
          `--b\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nvision\r\n--b\r\nContent-Disposition: form-data; name="file"${disposition}\r\n\r\n`,
        ),
        png,
        head('\r\n--b--\r\n'),
      ])
      const response = await call('/v1/files', {
        method: 'POST',
        body,
        headers: { 'content-type': 'multipart/form-data; boundary=b' },
      })
      expect(response.status).toBe(200)
      return (await response.json()) as File
    }
    const nameless = await send('')
    expect(nameless.filename).toBe(nameless.id)
    expect((await send('; filename="../../etc/passwd"')).filename).toBe('passwd')
    expect((await send('; filename="C:\\\\pictures\\\\a.png"')).filename).toBe('a.png')
    expect((await send(`; filename="${'x'.repeat(400)}"`)).filename).toHaveLength(255)
  })

  test('need a Content-Length, a form and a boundary', async () => {
    const chunked = await call('/v1/files', {
      method: 'POST',
      body: new ReadableStream({
        start(controller) {
          controller.enqueue(new TextEncoder().encode('--b--'))
          controller.close()
        },
      }),
      duplex: 'half',
      headers: { 'content-type': 'multipart/form-data; boundary=b' },
    } as RequestInit)
    expect(chunked.status).toBe(411)
    expect(await errorOf(chunked)).toMatchObject({
      type: 'invalid_request_error',
      message: expect.stringMatching(/Content-Length/),
    })
    for (const [type, status] of [
      ['application/json', 415],
      ['multipart/form-data', 415],
      ['multipart/form-data; boundary=', 400],
    ] as const) {
      const response = await call('/v1/files', { method: 'POST', body: '{}', headers: { 'content-type': type } })
      expect(response.status).toBe(status)
      expect(await errorOf(response)).toMatchObject({ type: 'invalid_request_error' })
    }
    const broken = await call('/v1/files', {
      method: 'POST',
      body: '--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\nabc',
      headers: { 'content-type': 'multipart/form-data; boundary=b' },
    })
    expect(broken.status).toBe(400)
    expect(await errorOf(broken)).toMatchObject({ type: 'invalid_request_error' })
  })

  test('that are too large are rejected before they are sent', async () => {
    const png = `\x89PNG\r\n\x1a\n${'\0'.repeat(8192)}`
    // The input of a batch may be larger than media, which are rejected as soon as they show that they are.
    for (const [mebibytes, head, message] of [
      [201, '', /200 MiB/],
      [129, png, /128 MiB/],
    ] as const) {
      const { hostname, port } = new URL(server.url)
      const socket = connect(Number(port), hostname)
      socket.write(
        `POST /v1/files HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: ${mebibytes * 2 ** 20}\r\n\r\n--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n`,
      )
      socket.write(head, 'latin1')
      const [answer] = (await once(socket, 'data')) as [Buffer]
      expect(answer.toString()).toMatch(/^HTTP\/1\.1 413 /)
      expect(answer.toString()).toMatch(message)
      socket.destroy()
    }
  })

  test('that are cut off leave nothing', async () => {
    const { hostname, port } = new URL(server.url)
    const socket = connect(Number(port), hostname)
    socket.write(
      `POST /v1/files HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: 100000\r\n\r\n--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n`,
    )
    socket.write(png.subarray(0, 1000))
    await expect.poll(() => drafts()).toBe(1)
    socket.destroy()
    await expect.poll(() => drafts()).toBe(0)
    expect(await (await call('/v1/files')).json()).toMatchObject({ data: [] })
  })

  test('stay within the storage quota, also when concurrent', async () => {
    const small = await accounts.organisation({ storedBytes: 3 * png.length + 10 })
    const statuses = await Promise.all(
      Array.from({ length: 8 }, async () => {
        const response = await upload({ purpose: 'vision', file: { bytes: png } }, small.key)
        if (response.status !== 200) {
          expect(await errorOf(response)).toMatchObject({ type: 'insufficient_quota', code: null })
        }
        return response.status
      }),
    )
    expect(statuses.sort()).toEqual([200, 200, 200, 413, 413, 413, 413, 413])
    const { data } = await jsonOf<Page>(await call('/v1/files', {}, small.key))
    expect((await call(`/v1/files/${data[0]!.id}`, { method: 'DELETE' }, small.key)).status).toBe(200)
    expect((await upload({ purpose: 'vision', file: { bytes: png } }, small.key)).status).toBe(200)
  })
})

describe('the upload quota of 48 hours', () => {
  const mib = 2 ** 20
  const record = (organisation: string, hoursAgo: number, bytes: number) =>
    accounts.database.execute(sql`
      insert into uploads (organisation_id, minute, bytes)
      values (${organisation}, date_trunc('minute', now() - make_interval(hours => ${hoursAgo}::integer)), ${bytes}::bigint)`)

  test('allows 20 GB, deleted files included, then rejects with a 429 that says when to retry', async () => {
    const { organisation, key } = await accounts.organisation()
    await record(organisation, 47, 20e9 - mib)
    await record(organisation, 49, 20e9)
    const first = await upload({ purpose: 'vision', file: { bytes: png } }, key)
    expect(first.status).toBe(200)
    const { id } = (await first.json()) as { id: string }
    expect((await call(`/v1/files/${id}`, { method: 'DELETE' }, key)).status).toBe(200)

    await record(organisation, 46, mib)
    const refused = await upload({ purpose: 'vision', file: { bytes: png } }, key)
    expect(refused.status).toBe(429)
    expect(await errorOf(refused)).toMatchObject({ type: 'insufficient_quota' })
    const seconds = Number(refused.headers.get('retry-after'))
    // The upload of 47 hours ago counts for one more hour.
    expect(seconds).toBeGreaterThan(3400)
    expect(seconds).toBeLessThanOrEqual(3600)
  })
})

describe('the list', () => {
  test('is empty without files', async () => {
    expect(await (await call('/v1/files')).json()).toEqual({
      object: 'list',
      data: [],
      first_id: '',
      last_id: '',
      has_more: false,
    })
  })

  test('is sorted by time in either order and paged, also after deleted files', async () => {
    const ids: string[] = []
    for (let i = 0; i < 5; i++) ids.push((await uploaded(distinct())).id)
    const newest = [...ids].reverse()
    const page = async (query: string) => jsonOf<Page>(await call(`/v1/files?${query}`))
    const whole = await page('')
    expect(whole.data.map(({ id }) => id)).toEqual(newest)
    expect(whole).toMatchObject({ first_id: newest[0], last_id: newest[4], has_more: false })
    expect((await page('order=asc')).data.map(({ id }) => id)).toEqual(ids)

    const first = await page('limit=2')
    expect(first).toMatchObject({ first_id: newest[0], last_id: newest[1], has_more: true })
    await call(`/v1/files/${first.last_id}`, { method: 'DELETE' })
    const second = await page(`limit=2&after=${first.last_id}`)
    expect(second.data.map(({ id }) => id)).toEqual(newest.slice(2, 4))
    const third = await page(`limit=2&after=${second.last_id}`)
    expect(third.data.map(({ id }) => id)).toEqual(newest.slice(4))
    expect(third.has_more).toBe(false)
    expect((await page(`order=asc&after=${ids[2]}`)).data.map(({ id }) => id)).toEqual([ids[4]])
  })

  test('can be filtered by purpose', async () => {
    const vision = await uploaded()
    await upload({ purpose: 'user_data', file: { bytes: png } })
    const { data } = await jsonOf<Page>(await call('/v1/files?purpose=vision'))
    expect(data.map(({ id }) => id)).toEqual([vision.id])
  })

  test.each([
    ['limit=0', 'limit'],
    ['limit=10001', 'limit'],
    ['limit=x', 'limit'],
    ['limit=1.5', 'limit'],
    ['limit=1&limit=2', 'limit'],
    ['order=up', 'order'],
    ['purpose=else', 'purpose'],
    ['after=nothing', 'after'],
  ])('rejects %s', async (query, param) => {
    const response = await call(`/v1/files?${query}`)
    expect(response.status).toBe(400)
    expect(await errorOf(response)).toMatchObject({ type: 'invalid_request_error', param })
  })
})

describe('a file in a request', () => {
  const model = 'service-mk1.5'
  const byId = (id: string) => ({ type: 'image_file_id', image_file_id: { file_id: id } })
  const byUrl = (id: string, base = 'https://lookout.example/behind/a/proxy') => ({
    type: 'image_url',
    image_url: { url: `${base}/v1/files/${id}/content` },
  })
  const post = (path: string, body: object, as = key) =>
    call(
      `/v1/${path}`,
      { method: 'POST', body: JSON.stringify(body), headers: { 'content-type': 'application/json' } },
      as,
    )
  const pictures = () => server.engine.works.at(-1)!.prefix.filter(({ type }) => type === 'image').length

  test('works in chat, multilook and detect, by its id or by its content URL under any public base', async () => {
    const { id } = await uploaded()
    for (const part of [byId(id), byUrl(id), byUrl(id, server.url)]) {
      const messages = [{ role: 'user', content: [part, { type: 'text', text: 'What is this?' }] }]
      const chat = await post('chat/completions', { model, messages })
      expect(chat.status, await chat.text()).toBe(200)
      expect(pictures()).toBe(1)
      const multilook = await post('chat/completions/multilook', { model, context: messages, prompts: ['a', 'b'] })
      expect(multilook.status, await multilook.text()).toBe(200)
      expect(pictures()).toBe(1)
    }
    server.engine.script = { texts: ['<point_box mention="square"> (1,2) (3,4) </point_box>'] }
    const found = await post('detect', { media: { type: 'image', image_url: byUrl(id).image_url.url } })
    server.engine.script = {}
    expect(found.status, await found.text()).toBe(200)
    expect(pictures()).toBe(1)
  })

  test('works for its own organisation only, until it is deleted', async () => {
    const { id } = await uploaded()
    const other = (await accounts.organisation()).key
    const chatWith = (part: object, as: string) =>
      post('chat/completions', { model, messages: [{ role: 'user', content: [part] }] }, as)
    const before = server.engine.works.length
    for (const part of [byId(id), byUrl(id)]) {
      const refused = await chatWith(part, other)
      expect(refused.status).toBeGreaterThanOrEqual(400)
      expect(refused.status).toBeLessThan(500)
      expect(await errorOf(refused)).toMatchObject({
        type: 'invalid_request_error',
        message: expect.stringContaining(id),
        param: expect.stringContaining('messages[0].content[0]'),
      })
    }
    await call(`/v1/files/${id}`, { method: 'DELETE' })
    expect((await chatWith(byId(id), key)).status).toBeGreaterThanOrEqual(400)
    expect(server.engine.works).toHaveLength(before)
  })
})

/** The number of uploads in progress. */
async function drafts(): Promise<number> {
  const folder = inject('blobs') === null ? join('files', 'drafts') : 'spool'
  const names = await readdir(join(server.directory, folder))
  return names.filter((name) => !name.startsWith('lock')).length
}
