import { once } from 'node:events'
import { get, type IncomingMessage } from 'node:http'
import { connect, type Socket } from 'node:net'
import { text } from 'node:stream/consumers'
import { Tinypool } from 'tinypool'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { FakeEngine } from './support/fake-engine.ts'
import { errorOf, jsonOf, KEY, startTestServer, type TestServer } from './support/server.ts'

let server: TestServer
beforeAll(async () => {
  server = await startTestServer()
})
afterAll(() => server?.close())

const chat = '/v1/chat/completions'
const hello = { model: 'service-mk1.5', messages: [{ role: 'user', content: 'Hi' }] }

test('a body that no thread can be started for gets a 503', async () => {
  const failure = Object.assign(new Error('EAGAIN'), { code: 'ERR_WORKER_INIT_FAILED' })
  vi.spyOn(Tinypool.prototype, 'run').mockRejectedValue(failure)
  const response = await server.post(chat, { ...hello, messages: [{ role: 'user', content: 'Hi '.repeat(100_000) }] })
  expect(response.status).toBe(503)
  expect(response.headers.get('retry-after')).toBe('5')
  expect((await errorOf(response)).message).toBe(
    'The server can start no thread at the moment. Try again in 5 seconds.',
  )
})

describe('the API key', () => {
  test.each([
    ['none', undefined],
    ['an unknown one', 'Bearer nope'],
    ['an empty one', 'Bearer '],
    ['another scheme', `Basic ${KEY}`],
    ['no scheme', KEY],
    ['more than one', `Bearer ${KEY} ${KEY}`],
  ])('%s', async (_name, authorization) => {
    const headers: Record<string, string> = authorization === undefined ? {} : { authorization }
    for (const [method, path] of [
      ['POST', chat],
      ['GET', '/v1/models'],
      ['GET', '/v1/models/service-mk1'],
      ['GET', '/v1/files'],
      ['GET', '/no/such/path'],
      ['DELETE', chat],
    ] as const) {
      const response = await fetch(server.url + path, { method, headers })
      expect(response.status).toBe(401)
      expect(await response.json()).toEqual({
        error: { message: 'Invalid API key', type: 'authentication_error', param: null, code: null },
      })
      expect(response.headers.get('x-trace-id')).toMatch(/^[0-9a-f]{32}$/)
    }
  })

  test('the authorization scheme may have any case', async () => {
    for (const scheme of ['bearer', 'BEARER', 'Bearer ']) {
      const response = await fetch(`${server.url}/v1/models`, { headers: { authorization: `${scheme} ${KEY}` } })
      expect(response.status).toBe(200)
    }
  })

  test.each(['/', '/healthz', '/health', '/v1/health', '/ping', '/readyz', '/openapi.json'])(
    '%s needs no key',
    async (path) => {
      expect((await fetch(server.url + path)).status).toBe(200)
    },
  )

  test.each(['/health', '/v1/health', '/ping'])('%s answers as /healthz does', async (path) => {
    const asked = await fetch(server.url + path)
    const healthz = await fetch(`${server.url}/healthz`)
    expect([asked.status, await asked.text()]).toEqual([healthz.status, await healthz.text()])
    const head = await fetch(server.url + path, { method: 'HEAD', headers: { authorization: 'Bearer wrong' } })
    expect([head.status, await head.text()]).toEqual([200, ''])
    expect((await server.post(path, {})).status).toBe(405)
  })

  test('/ says what this is, and its links lead somewhere', async () => {
    const { name, version, links } = await jsonOf<{ name: string; version: string; links: Record<string, string> }>(
      await fetch(server.url),
    )
    expect(name).toBe('Lookout')
    expect(version).toMatch(/^\d+\.\d+\.\d+$/)
    for (const path of Object.values(links)) expect((await server.get(path)).status).toBe(200)
  })
})

test.each([
  ['/health', 200],
  ['/v1/models', 200],
  ['/v1/models/a/b', 404],
])('a proxy may name the whole URL of %s', async (path, status) => {
  const { hostname, port } = new URL(server.url)
  const asking = get({ hostname, port, path: `http://a.example${path}`, headers: { authorization: `Bearer ${KEY}` } })
  const [response] = (await once(asking, 'response')) as [IncomingMessage]
  const body = await text(response)
  expect(response.statusCode, body).toBe(status)
  expect(body).toBe(await (await fetch(server.url + path, { headers: { authorization: `Bearer ${KEY}` } })).text())
})

describe('a client that ends its side after the request', () => {
  const request = (version: string, fields: object) => {
    const body = JSON.stringify({ ...hello, ...fields })
    const head = [
      `POST ${chat} HTTP/${version}`,
      'host: a',
      `authorization: Bearer ${KEY}`,
      'content-type: application/json',
      `content-length: ${Buffer.byteLength(body)}`,
    ]
    return `${head.join('\r\n')}\r\n\r\n${body}`
  }
  const open = () => {
    const { hostname, port } = new URL(server.url)
    return connect({ port: Number(port), host: hostname, allowHalfOpen: true }).on('error', () => {})
  }
  const usual = new FakeEngine().script
  beforeEach(() => {
    server.engine.works.length = 0
    server.engine.aborts.length = 0
  })
  afterEach(() => {
    server.engine.script = usual
  })

  test.each([
    ['1.1', false, 0],
    ['1.1', false, 60],
    ['1.1', true, 60],
    ['1.0', false, 60],
    ['1.0', true, 60],
  ])('gets its whole reply (HTTP/%s, stream %s, %i ms for each text)', async (version, stream, delayMs) => {
    server.engine.script = { texts: ['One ', 'two ', 'three ', 'four ', 'five.'], delayMs }
    const socket = open()
    socket.end(request(version, { stream }))
    const reply = await text(socket)
    expect(reply).toMatch(/^HTTP\/1\.1 200 OK\r\n/)
    expect(reply.match(/HTTP\/1\.1/g)).toHaveLength(1)
    expect(reply).toContain(stream ? 'five.' : 'One two three four five.')
    if (stream) expect(reply).toContain('data: [DONE]')
    expect(server.engine.aborts).toEqual([])
  })

  test('gets the reply to each request that it has pipelined', async () => {
    server.engine.script = { texts: ['One ', 'two.'], delayMs: 40 }
    const socket = open()
    socket.end(request('1.1', {}) + request('1.1', { stream: true }) + request('1.1', { model: 'none' }))
    const reply = await text(socket)
    expect(reply.match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 200', 'HTTP/1.1 200', 'HTTP/1.1 400'])
  })

  test('gets an error for half a request', async () => {
    const socket = open()
    socket.end(request('1.1', {}).slice(0, -1))
    expect(await text(socket)).toMatch(/^HTTP\/1\.1 400 .*The request is not valid HTTP/s)
    expect(server.engine.works).toEqual([])
  })

  test.each([
    ['1.1', false, 'before the reply'],
    ['1.1', true, 'before the reply'],
    ['1.1', true, 'in the reply'],
    ['1.0', false, 'before the reply'],
    ['1.0', true, 'in the reply'],
  ])('and leaves: the work stops (HTTP/%s, stream %s, %s)', async (version, stream, when) => {
    const silent = when === 'before the reply'
    server.engine.script = { texts: silent ? [] : ['tick '], delayMs: silent ? 2 ** 30 : 5, endless: true }
    const socket = open()
    socket.write(request(version, { stream }))
    await expect.poll(() => server.engine.works.length).toBe(1)
    if (!silent) await once(socket, 'data')
    socket.end()
    await once(socket, 'finish')
    // As an operating system does it for a program that ends.
    socket.destroy()
    await expect.poll(() => server.engine.aborts.length).toBe(1)
    expect(server.engine.aborts[0]).toMatchObject({ name: 'ClientDisconnected' })
  })
})

describe('paths and methods', () => {
  test.each([
    ['GET', '/v1'],
    ['POST', '/v1/edits'],
    ['GET', '/v1/files/a/b'],
  ])('unknown: %s %s', async (method, path) => {
    const response = await fetch(server.url + path, { method, headers: { authorization: `Bearer ${KEY}` } })
    expect(response.status).toBe(404)
    expect(await errorOf(response)).toMatchObject({ type: 'invalid_request_error', param: null, code: null })
  })

  test.each([
    ['POST', '/chat/completions', '; use /v1/chat/completions'],
    ['POST', '/v1/v1/chat/completions', '; use /v1/chat/completions'],
    ['POST', '//v1/chat/completions', '; use /v1/chat/completions'],
    ['GET', '/v1//models', '; use /v1/models'],
    ['GET', '/proxy/v1/models?extended=true', '; use /v1/models'],
    ['GET', '/v1/healthz/v1/', ''],
    ['GET', '/constructor', ''],
    // Patterns of the router, some of them broken.
    ['GET', '/:model(', ''],
    ['POST', '/v1/:a((x+x+)+y)', ''],
    ['GET', '/v1/studio/*a', ''],
    ['GET', '/v1/v1/models/:model', ''],
  ])('a wrong address of the server: %s %s%s', async (method, path, advice) => {
    const response = await fetch(server.url + path, { method, headers: { authorization: `Bearer ${KEY}` } })
    expect(response.status).toBe(404)
    const { message } = await errorOf(response)
    expect(message).toBe(`Unknown path: ${method} ${path.split('?', 1)[0]}${advice}`)
  })

  test.each([
    ['GET', chat, 'POST'],
    ['PUT', chat, 'POST'],
    ['POST', '/v1/models', 'GET, HEAD'],
    ['PUT', '/v1/models/service-mk1', 'GET, HEAD, DELETE'],
    ['POST', '/healthz', 'GET, HEAD'],
    ['POST', '/', 'GET, HEAD'],
  ])('not allowed: %s %s', async (method, path, allow) => {
    const body = method === 'GET' ? {} : { body: 'anything' }
    const response = await fetch(server.url + path, { method, headers: { authorization: `Bearer ${KEY}` }, ...body })
    expect(response.status).toBe(405)
    expect(response.headers.get('allow')).toBe(allow)
    expect(await errorOf(response)).toMatchObject({ type: 'invalid_request_error', param: null, code: null })
  })

  test('a path that is too long is not repeated in the error', async () => {
    const response = await server.get(`/v1/models/${'a'.repeat(1500)}`)
    expect(response.status).toBe(414)
    expect(await errorOf(response)).toMatchObject({ message: 'The path is too long', type: 'invalid_request_error' })
  })

  test('an invalid path, and bytes that are not HTTP', async () => {
    const response = await server.get('/v1/models/%ZZ')
    expect(response.status).toBe(400)
    expect(await errorOf(response)).toMatchObject({ type: 'invalid_request_error' })
    const answer = await raw('nonsense\r\n\r\n')
    expect(answer).toMatch(/^HTTP\/1\.1 400 Bad Request\r\n/)
    expect(answer).toMatch(/x-trace-id: ([0-9a-f]{32})\r\nx-request-id: \1\r\n/)
    expect(JSON.parse(answer.slice(answer.indexOf('{'))).error.type).toBe('invalid_request_error')
  })

  test.each([
    ['without Host', 'GET /healthz HTTP/1.1', '400 Bad Request', "The header 'Host' is missing"],
    ['for a tunnel', 'CONNECT a:1 HTTP/1.1\r\nhost: a', '404 Not Found', 'Unknown path: CONNECT a:1'],
    ['without Host, of HTTP/1.0', 'GET /healthz HTTP/1.0', '200 OK', null],
    ['that expects what it may not', 'GET /healthz HTTP/1.1\r\nhost: a\r\nexpect: tea', '200 OK', null],
  ])('a request %s', async (_name, head, status, message) => {
    const answer = await raw(`${head}\r\nauthorization: Bearer ${KEY}\r\nconnection: close\r\n\r\n`)
    expect(answer.split('\r\n')[0]).toBe(`HTTP/1.1 ${status}`)
    expect(answer).toMatch(/x-trace-id: [0-9a-f]{32}\r\n/)
    const body = JSON.parse(answer.slice(answer.indexOf('\r\n\r\n')))
    if (message === null) expect(body).toEqual({ status: 'ok' })
    else expect(body.error).toEqual({ message, type: 'invalid_request_error', param: null, code: null })
  })
})

describe('traces and logs', () => {
  test('every response has its own trace id, with any headers of the client', async () => {
    const ids = new Set<string | null>()
    for (let i = 0; i < 5; i++) {
      const own = { 'x-trace-id': 'mine', 'request-id': 'mine', 'x-request-id': 'mine' }
      const response = await server.get('/v1/models', own)
      ids.add(response.headers.get('x-trace-id'))
    }
    expect(ids.size).toBe(5)
    for (const id of ids) expect(id).toMatch(/^[0-9a-f]{32}$/)
  })

  test('responses, streams and errors have the id under OpenAI’s name too', async () => {
    const bearer = { authorization: `Bearer ${KEY}` }
    const answers = await Promise.all([
      server.get('/v1/models'),
      server.get('/v1/models/none'),
      server.get('/v1/models/%ZZ'),
      server.post(chat, { ...hello, stream: true }),
      server.post(chat, '{'),
      fetch(`${server.url}/v1/models`),
      fetch(server.url + chat, { method: 'DELETE', headers: bearer }),
      fetch(`${server.url}/healthz`),
    ])
    expect(answers.map(({ status }) => status)).toEqual([200, 404, 400, 200, 400, 401, 405, 200])
    for (const { headers } of answers) {
      expect(headers.get('x-request-id')).toMatch(/^[0-9a-f]{32}$/)
      expect(headers.get('x-request-id')).toBe(headers.get('x-trace-id'))
    }
    await Promise.all(answers.map((answer) => answer.text()))
  })

  test('an id that the client gives comes back with any answer, and stands in the log', async () => {
    const id = 'order-7/{"\'~!'.padEnd(128, 'x')
    const own = { 'x-request-id': id }
    server.logs.length = 0
    const answers = await Promise.all([
      server.get('/v1/models', own),
      server.get('/v1/models/%ZZ', own),
      server.get('/no/such/path', own),
      server.post(chat, { ...hello, stream: true }, own),
      server.post('/v1/messages', {}, own),
      fetch(`${server.url}/v1/models`, { headers: own }),
      fetch(`${server.url}/healthz`, { headers: own }),
    ])
    await Promise.all(answers.map((answer) => answer.text()))
    expect(answers.map(({ status }) => status)).toEqual([200, 400, 404, 200, 400, 401, 200])
    for (const { headers } of answers) {
      expect(headers.get('x-request-id')).toBe(id)
      expect(headers.get('x-trace-id')).toMatch(/^[0-9a-f]{32}$/)
    }
    const trace = answers[0]!.headers.get('x-trace-id')
    const lines = () => server.logs.map((line) => JSON.parse(line))
    await expect.poll(lines).toContainEqual(expect.objectContaining({ traceId: trace, clientRequestId: id }))
  })

  test.each([
    ['too long', 'x'.repeat(129)],
    ['of two words', 'two words'],
    ['empty', ''],
    ['not ASCII', 'caf\xe9'],
    ['two ids', ['one', 'other']],
  ])('an id that is %s is replaced', async (_name, id) => {
    const { request } = await import('undici')
    const response = await request(`${server.url}/healthz`, { headers: { 'x-request-id': id } })
    await response.body.dump()
    expect(response.statusCode).toBe(200)
    expect(response.headers['x-request-id']).toMatch(/^[0-9a-f]{32}$/)
    expect(response.headers['x-request-id']).toBe(response.headers['x-trace-id'])
  })

  test('the log has one line per request, with its trace id and nothing of its content', async () => {
    server.logs.length = 0
    const response = await server.post(`${chat}?token=secret-query`, {
      ...hello,
      messages: [{ role: 'user', content: 'secret-text' }],
    })
    const trace = response.headers.get('x-trace-id')
    await response.text()
    await expect.poll(() => server.logs.length).toBe(1)
    const line = JSON.parse(server.logs[0]!)
    expect(line).toMatchObject({ traceId: trace, method: 'POST', path: chat, status: 200, organisation: 'default' })
    expect(server.logs[0]).not.toMatch(/secret|test-key/)
  })

  test('internal errors are logged with their cause, which the client does not see', async () => {
    server.logs.length = 0
    server.engine.script = { refusal: new TypeError('inner workings') }
    const response = await server.post(chat, hello)
    server.engine.script = {}
    expect(response.status).toBe(500)
    expect(await response.json()).toEqual({
      error: { message: 'Internal error', type: 'server_error', param: null, code: null },
    })
    await expect.poll(() => server.logs.some((line) => line.includes('inner workings'))).toBe(true)
  })
})

describe('rate limits', () => {
  test('count requests per minute and endpoint, with headers on every response', async () => {
    let now = 0
    const limited = await startTestServer({ clock: () => now, environment: { LOOKOUT_RATE_LIMITS: 'on' } })
    const first = await limited.get('/v1/models')
    expect(first.headers.get('x-ratelimit-limit-requests')).toBe('30')
    expect(first.headers.get('x-ratelimit-remaining-requests')).toBe('29')
    expect(first.headers.get('x-ratelimit-reset-requests')).toBe('60.000s')
    now += 10_500
    for (let i = 0; i < 28; i++) await limited.get('/v1/models')
    const unknown = await limited.get('/v1/models/none')
    expect(unknown.status).toBe(404)
    expect(unknown.headers.get('x-ratelimit-remaining-requests')).toBe('0')

    const refused = await limited.get('/v1/models')
    expect(refused.status).toBe(429)
    expect(refused.headers.get('retry-after')).toBe('50')
    expect(refused.headers.get('x-ratelimit-remaining-requests')).toBe('0')
    expect(await errorOf(refused)).toEqual({
      message: 'Rate limit reached: 30 requests per minute (models). Try again in 50 seconds.',
      type: 'rate_limit_error',
      param: null,
      code: 'rate_limit_exceeded',
    })

    const stream = await limited.post(chat, { ...hello, stream: true })
    expect(stream.headers.get('x-ratelimit-limit-requests')).toBe('300')
    expect(stream.headers.get('x-ratelimit-remaining-requests')).toBe('299')
    await stream.text()
    const invalid = await limited.post(chat, {})
    expect(invalid.headers.get('x-ratelimit-remaining-requests')).toBe('298')

    now += 49_500
    expect((await limited.get('/v1/models')).status).toBe(200)
    expect((await limited.get('/v1/models')).status).toBe(429)
    expect((await fetch(`${limited.url}/v1/models`)).status).toBe(401)
    await limited.close()
  })

  test('tell each request that is refused a time of its own', async () => {
    let now = 0
    const limited = await startTestServer({ clock: () => now, environment: { LOOKOUT_RATE_LIMITS: 'on' } })
    const retryAfter = async () => (await limited.get('/v1/models')).headers.get('retry-after')
    for (let i = 0; i < 30; i++) {
      expect(await retryAfter()).toBeNull()
      now += 1_000
    }
    expect([await retryAfter(), await retryAfter(), await retryAfter()]).toEqual(['30', '31', '32'])
    // A time that is over is not promised any longer, and every request is admitted while there is room.
    now += 31_000
    expect([await retryAfter(), await retryAfter(), await retryAfter()]).toEqual([null, null, '2'])
    // No request is told more than a minute.
    for (let i = 0; i < 30; i++) await retryAfter()
    expect(await retryAfter()).toBe('60')
    await limited.close()
  })

  test('can be turned off', async () => {
    const response = await server.get('/v1/models')
    expect(response.headers.get('x-ratelimit-limit-requests')).toBeNull()
  })
})

describe('graceful shutdown', () => {
  test('lets active responses finish within the grace period, and ends longer ones with an error', async () => {
    const closing = await startTestServer({ graceMs: 4000 })
    closing.engine.script = { texts: ['a', 'b', 'c'], delayMs: 30 }
    const short = await closing.post(chat, { ...hello, stream: true })
    closing.engine.script = { texts: ['tick'], delayMs: 30, endless: true }
    const long = await closing.post(chat, { ...hello, stream: true })
    const closed = closing.close()
    expect(await short.text()).toMatch(/\[DONE\]\n\n$/)
    const events = (await long.text()).trim().split('\n\n')
    expect(JSON.parse(events.at(-1)!.slice('data: '.length)).error).toMatchObject({
      type: 'server_error',
      code: 'model_overloaded',
    })
    await closed
    expect(closing.engine.state).toBe('closed')
    await expect(fetch(`${closing.url}/healthz`)).rejects.toThrow()
  })

  test('answers uploads that do not end in time', async () => {
    const closing = await startTestServer({ graceMs: 200 })
    const head =
      `POST /v1/files HTTP/1.1\r\nhost: test\r\nauthorization: Bearer ${KEY}\r\nexpect: 100-continue\r\n` +
      'content-type: multipart/form-data; boundary=b\r\ncontent-length: 9999\r\n\r\n'
    const { socket, answer } = openSocket(closing.url, head)
    await once(socket, 'data')
    socket.write('--b\r\ncontent-disposition: form-data; name="file"; filename="a"\r\n\r\nabc')
    await closing.close()
    expect(await answer).toMatch(/HTTP\/1\.1 503 .*shutting down/s)
  })

  test('finishes accepted requests, and tells new ones to retry', async () => {
    const closing = await startTestServer({ graceMs: 20_000 })
    closing.engine.script = { texts: ['tick'], delayMs: 10, endless: true }
    const stopping = new AbortController()
    const stream = await closing.post(chat, { ...hello, stream: true })
    const endless = await fetch(closing.url + chat, {
      method: 'POST',
      headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' },
      body: JSON.stringify({ ...hello, stream: true }),
      signal: stopping.signal,
    })
    closing.engine.script = { texts: ['late'] }
    // Accepted, although its body has not arrived completely.
    const body = JSON.stringify(hello)
    const head = [
      `POST ${chat} HTTP/1.1`,
      'host: test',
      `authorization: Bearer ${KEY}`,
      'content-type: application/json',
      `content-length: ${body.length}`,
      'expect: 100-continue',
    ].join('\r\n')
    const slow = openSocket(closing.url, `${head}\r\n\r\n${body.slice(0, 20)}`)
    const [goOn] = await once(slow.socket, 'data')
    expect(String(goOn)).toBe('HTTP/1.1 100 Continue\r\n\r\n')

    const closed = closing.close()
    const refused = await closing.post(chat, hello)
    expect(refused.status).toBe(503)
    expect(refused.headers.get('retry-after')).toBe('5')
    expect(refused.headers.get('connection')).toBe('close')
    expect(await errorOf(refused)).toMatchObject({ type: 'server_error', code: 'model_overloaded' })
    const ready = await fetch(`${closing.url}/readyz`)
    expect([ready.status, await ready.json()]).toEqual([503, { status: 'closing' }])
    expect((await fetch(`${closing.url}/healthz`)).status).toBe(200)

    slow.socket.write(body.slice(20))
    expect(await slow.answer).toMatch(/\r\n\r\nHTTP\/1\.1 200 OK\r\n[\s\S]*"late"/)
    stopping.abort()
    await expect(endless.text()).rejects.toThrow()
    await stream.body!.cancel()
    await closed
    await expect(fetch(`${closing.url}/healthz`)).rejects.toThrow()
  })

  test('readiness follows the engine', async () => {
    const ready = () => fetch(`${server.url}/readyz`).then((response) => response.status)
    expect(await ready()).toBe(200)
    server.engine.state = 'restarting'
    expect(await ready()).toBe(503)
    server.engine.state = 'ready'
  })
})

function raw(text: string): Promise<string> {
  return openSocket(server.url, text).answer
}

/** @returns the connection, and everything received until it is closed. */
function openSocket(url: string, text: string): { socket: Socket; answer: Promise<string> } {
  const { hostname, port } = new URL(url)
  const socket = connect(Number(port), hostname, () => socket.write(text))
  const answer = new Promise<string>((resolve, reject) => {
    let received = ''
    socket.on('data', (data) => {
      received += data
    })
    socket.on('close', () => resolve(received))
    socket.on('error', reject)
  })
  return { socket, answer }
}
