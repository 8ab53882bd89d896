import { once } from 'node:events'
import { readdir, readFile } from 'node:fs/promises'
import { createServer, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { buildPage, isPageBuilt, STUDIO } from '../src/setup/pages.mjs'
import { errorOf, startTestServer, type TestServer } from './support/server.ts'

/** Media by its address, through the server: the Studio's page may call no other host. */
const SAMPLES = fileURLToPath(new URL('../docs/pictures/', import.meta.url))

let server: TestServer
let origin: Server
let address: string
let routes: Record<string, RequestListener> = {}

beforeAll(async () => {
  if (!(await isPageBuilt(STUDIO))) await buildPage(STUDIO)
  origin = createServer((request, response) => {
    const route = routes[request.url ?? '']
    if (route) route(request, response)
    else response.writeHead(404).end()
  }).listen(0, '127.0.0.1')
  await once(origin, 'listening')
  address = `http://localhost:${(origin.address() as AddressInfo).port}`
  server = await startTestServer({ environment: { LOOKOUT_MEDIA_HOSTS: new URL(address).host } })
})
afterEach(() => {
  routes = {}
})
afterAll(async () => {
  await server?.close()
  origin?.closeAllConnections()
  origin?.close()
})

const fetched = (url: unknown) => server.post('/studio/fetch', { url })

describe('POST /studio/fetch', () => {
  test.each([
    ['shapes.png', 'image/png'],
    ['shapes.webm', 'video/webm'],
    ['words.mp3', 'audio/mpeg'],
  ])('answers the bytes of %s with their own type', async (name, type) => {
    const bytes = await readFile(join(SAMPLES, name))
    routes['/media'] = (_request, response) => response.writeHead(200, { 'content-type': 'text/html' }).end(bytes)
    const response = await fetched(`${address}/media`)
    expect(response.status).toBe(200)
    expect(response.headers.get('content-type')).toBe(type)
    expect(response.headers.get('content-disposition')).toBe('attachment')
    expect(Buffer.from(await response.arrayBuffer()).equals(bytes)).toBe(true)
    // Nothing of it stays.
    await expect.poll(() => readdir(join(server.directory, 'media'))).toEqual(['lock'])
  })

  test.each([
    ['http://127.0.0.1/a.png', 'its address is not public'],
    ['http://[::1]/a.png', 'its address is not public'],
    ['http://169.254.169.254/latest/meta-data', 'its address is not public'],
    ['https://example.com:8443/a.png', 'port 8443 is not allowed'],
    ['file:///etc/passwd', 'must be an http(s) URL'],
    ['data:image/png;base64,iVBORw0KGgo=', 'must be the http(s) URL'],
    ['no address', 'must be a valid http(s) URL'],
    ['', 'url'],
    [7, 'url'],
  ])('refuses %s', async (url, reason) => {
    const response = await fetched(url)
    expect(response.status).toBe(400)
    const error = await errorOf(response)
    expect(error).toMatchObject({ type: 'invalid_request_error', param: 'url' })
    expect(error.message).toContain(reason)
  })

  test('follows no redirect to a private address', async () => {
    routes['/away'] = (_request, response) => response.writeHead(302, { location: 'http://127.0.0.1/secret' }).end()
    const response = await fetched(`${address}/away`)
    expect([response.status, (await errorOf(response)).message]).toEqual([400, expect.stringContaining('not public')])
  })

  test.each([
    ['a page', '<!doctype html><html><body>Not found, sorry, but with status 200</body></html>', 'text/html'],
    ['a GIF', `GIF89a${'\0'.repeat(80)}`, 'image/gif'],
    ['nothing', '', 'unknown'],
  ])('refuses %s', async (_what, body, reason) => {
    routes['/media'] = (_request, response) => response.writeHead(200, { 'content-type': 'image/png' }).end(body)
    const error = await errorOf(await fetched(`${address}/media`))
    expect(error.param).toBe('url')
    expect(error.message).toContain(reason)
  })

  test('refuses an image that is larger than a request may be, and reads no further', async () => {
    const head = await readFile(join(SAMPLES, 'shapes.png'))
    let sent = 0
    const closed = Promise.withResolvers<void>()
    routes['/huge'] = (_request, response) => {
      response.on('close', closed.resolve)
      response.writeHead(200).write(head)
      const more = () => {
        while (!response.destroyed && response.write(Buffer.alloc(2 ** 20))) sent++
      }
      response.on('drain', more)
      more()
    }
    const response = await fetched(`${address}/huge`)
    expect(response.status).toBe(400)
    expect(await errorOf(response)).toMatchObject({ param: 'url', message: expect.stringContaining('20 MiB') })
    await closed.promise
    expect(sent).toBeLessThan(64)
  })

  test('says which status the other server gave', async () => {
    const error = await errorOf(await fetched(`${address}/gone?token=secret`))
    expect(error.message).toContain('HTTP 404')
    expect(error.message).not.toContain('secret')
  })

  test('needs a key', async () => {
    const response = await fetch(`${server.url}/studio/fetch`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ url: address }),
    })
    expect([response.status, (await errorOf(response)).type]).toEqual([401, 'authentication_error'])
  })

  test('counts towards a limit of its own', async () => {
    const limited = await startTestServer({ environment: { LOOKOUT_RATE_LIMITS: 'media_fetch=2' } })
    try {
      const statuses: number[] = []
      for (let i = 0; i < 3; i++) {
        statuses.push((await limited.post('/studio/fetch', { url: 'http://127.0.0.1/' })).status)
      }
      expect(statuses).toEqual([400, 400, 429])
    } finally {
      await limited.close()
    }
  })

  test('is not there without the Studio', async () => {
    const without = await startTestServer({ environment: { LOOKOUT_STUDIO: 'off' } })
    try {
      expect((await without.post('/studio/fetch', { url: address })).status).toBe(404)
    } finally {
      await without.close()
    }
  })
})
