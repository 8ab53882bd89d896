import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { KEY, startTestServer, type TestServer } from './support/server.ts'

/** A tenth of the usual limit. */
const HEADERS_TIMEOUT_MS = 2_000

let server: TestServer
beforeAll(async () => {
  server = await startTestServer({ bodyTimeoutMs: 300, headersTimeoutMs: HEADERS_TIMEOUT_MS })
})
afterAll(() => server?.close())

test('every response has security headers', async () => {
  for (const path of ['/v1/models', '/no/such/path', '/healthz']) {
    const response = await server.get(path)
    expect(Object.fromEntries(response.headers)).toMatchObject({
      'x-content-type-options': 'nosniff',
      'x-frame-options': 'DENY',
      'referrer-policy': 'no-referrer',
      'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
    })
  }
})

describe('pages of other origins', () => {
  const origin = 'https://example.org'
  const preflight = (url: string, from: string, names = 'authorization') =>
    fetch(`${url}/v1/models`, {
      method: 'OPTIONS',
      headers: {
        origin: from,
        'access-control-request-method': 'GET',
        'access-control-request-headers': names,
      },
    })

  test('are not allowed by default', async () => {
    expect((await preflight(server.url, origin)).status).toBe(401)
    const response = await server.get('/v1/models', { origin })
    expect(response.headers.get('access-control-allow-origin')).toBeNull()
  })

  test.each([
    origin,
    // Pages of desktop programs and of browser extensions.
    ...['app://obsidian.md', 'tauri://localhost', 'file://', 'moz-extension://2c127fa4-62c7-7e4f-90e5-472b45eecfdc'],
  ])('are allowed where the setting names them: %s', async (origin) => {
    const open = await startTestServer({ environment: { LOOKOUT_CORS_ORIGINS: origin } })
    const allowed = await preflight(open.url, origin)
    expect(allowed.status).toBe(204)
    expect(allowed.headers.get('access-control-allow-origin')).toBe(origin)
    expect(allowed.headers.get('access-control-allow-headers')).toMatch(/authorization/)
    expect((await preflight(open.url, 'https://evil.org')).status).toBe(401)
    const unclear = await preflight(open.url, origin, 'authorization; x=1')
    expect(unclear.headers.get('access-control-allow-headers')).toBe('authorization, content-type, range')

    const response = await open.get('/v1/models', { origin })
    expect(response.status).toBe(200)
    expect(response.headers.get('access-control-allow-origin')).toBe(origin)
    expect(response.headers.get('access-control-expose-headers')).toMatch(/x-trace-id, x-request-id/)
    expect(response.headers.get('access-control-allow-credentials')).toBeNull()
    expect(response.headers.get('vary')).toBe('Origin')
    const stream = await open.post('/v1/chat/completions', hello, { origin })
    expect(stream.headers.get('access-control-allow-origin')).toBe(origin)
    await stream.text()
    expect(
      (await open.get('/v1/models', { origin: 'https://evil.org' })).headers.get('access-control-allow-origin'),
    ).toBeNull()
    await open.close()
  })
})

const hello = { model: 'service-mk1.5', messages: [{ role: 'user', content: 'Hi' }], stream: true }

test.each([
  ['/v1/chat/completions', /"error":\{"message":"The request did not arrive in time"/],
  [
    '/v1/messages',
    /"type":"error","error":\{"type":"invalid_request_error","message":"The request did not arrive in time"/,
  ],
  ['/v1/systemone', /"detail":"The request did not arrive in time"/],
])('a body that arrives too slowly gets 408, in the shape of %s', async (path, body) => {
  const { hostname, port } = new URL(server.url)
  const socket = connect(Number(port), hostname)
  socket.write(
    `POST ${path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${KEY}\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{`,
  )
  const drops = setInterval(() => socket.write(' '), 50)
  socket.on('error', () => {})
  const answer = await text(socket)
  clearInterval(drops)
  expect(answer).toMatch(/^HTTP\/1\.1 408 /)
  expect(answer).toMatch(/\r\nconnection: close\r\n/i)
  expect(answer).toMatch(body)
  expect(server.engine.works).toHaveLength(0)
})

test('headers that arrive too slowly get 408', async () => {
  const { hostname, port } = new URL(server.url)
  const socket = connect(Number(port), hostname)
  const since = performance.now()
  socket.write('GET /v1/models HTTP/1.1\r\nHost: a\r\n')
  const lines = setInterval(() => socket.write('X-More: a\r\n'), 50)
  socket.on('error', () => {})
  const answer = await text(socket)
  clearInterval(lines)
  expect(answer).toMatch(/^HTTP\/1\.1 408 /)
  expect(performance.now() - since).toBeGreaterThan(HEADERS_TIMEOUT_MS * 0.9)
})

test('a client that never ends its side is disconnected after that', async () => {
  const { hostname, port: serverPort } = new URL(server.url)
  // By its port, which a socket that is gone no longer has.
  const accepted = new Map<number | undefined, Socket>()
  const note = (message: unknown) => {
    const { socket } = message as { socket: Socket }
    accepted.set(socket.remotePort, socket)
  }
  subscribe('net.server.socket', note)
  onTestFinished(() => void unsubscribe('net.server.socket', note))
  const socket = connect({ port: Number(serverPort), host: hostname, allowHalfOpen: true }).on('error', () => {})
  onTestFinished(() => void socket.destroy())
  await once(socket, 'connect')
  const port = socket.localPort
  expect(await text(socket)).toMatch(/^HTTP\/1\.1 408 /)
  const own = accepted.get(port)!
  await expect.poll(() => own.destroyed).toBe(true)
})

test('headers that are too large get 431', async () => {
  const { hostname, port } = new URL(server.url)
  const socket = connect(Number(port), hostname)
  socket.on('error', () => {})
  socket.write(`GET /v1/models HTTP/1.1\r\nHost: a\r\nX-Large: ${'x'.repeat(20_000)}\r\n\r\n`)
  const [answer] = (await once(socket, 'data')) as [Buffer]
  expect(answer.toString()).toMatch(/^HTTP\/1\.1 431 /)
  socket.destroy()
})
