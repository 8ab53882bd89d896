import { once } from 'node:events'
import { request } from 'node:http'
import { connect } from 'node:net'
import fc from 'fast-check'
import sharp from 'sharp'
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import { Accounts } from '../src/accounts/accounts.ts'
import type { ReadQuestion } from '../src/inference/contract/work.ts'
import { Database } from '../src/storage/database.ts'
import * as tables from '../src/storage/schema.ts'
import { startTestServer, type TestServer } from './support/server.ts'
import { eventsOf, LAMP, newKey, WatchClient } from './support/watch-client.ts'
import { refusalOf, WatchSocket } from './support/watch-socket.ts'

let server: TestServer
let database: Database
let bright: Buffer
let dark: Buffer
beforeAll(async () => {
  const solid = (background: string) => sharp({ create: { width: 96, height: 54, channels: 3, background } })
  bright = await solid('white').png().toBuffer()
  dark = await solid('black').jpeg().toBuffer()
  server = await startTestServer({
    environment: {
      ...{ DATABASE_URL: '', LOOKOUT_WATCHES: '20', LOOKOUT_CAMERA_HOSTS: '127.0.0.1' },
      ...{ LOOKOUT_BODY_MEMORY: '20', LOOKOUT_CORS_ORIGINS: 'https://robots.example' },
    },
    watches: { beatMs: 20, silenceMs: 60_000 },
  })
  database = await Database.open({ url: null, directory: `${server.directory}/database`, cacheDirectory: '' })
})
afterAll(async () => {
  await database?.close()
  await server?.close()
})
beforeEach(() => answer(0.1))

/** Gives `Yes.` this probability. */
function answer(yes: number) {
  const odds = (reply: string) => (reply === 'Yes.' ? yes : 1 - yes)
  server.engine.script = { read: ({ replies }: ReadQuestion) => replies.map((reply) => Math.log(odds(reply))) }
}

const socketUrl = (id: string, query = '') => `${server.url}/v1/watches/${id}/socket${query}`

/** A watch of an organisation of its own, with a key for it. */
async function newWatch(changes: object = {}, scopes = ['watch'] as const) {
  const { key } = await newKey(database, { scopes })
  const client = new WatchClient(server, key)
  const { id } = await client.made(changes)
  return { id, key, client }
}

async function newSocket(changes: object = {}, query = '') {
  const watch = await newWatch(changes)
  return { ...watch, socket: await WatchSocket.open(socketUrl(watch.id, query), watch.key) }
}

describe('a socket', () => {
  test('takes frames, and sends replies, looks and events; a second one replays these', async () => {
    const { id, key, client, socket } = await newSocket({}, '?looks=true')
    await socket.look(bright)
    answer(0.9)
    const time = '2027-01-31T12:00:00.500Z'
    const looked = await socket.look(dark, { time })
    expect(looked).toMatchObject({ type: 'frame.accepted', answers: [{ probability: expect.any(Number) }] })
    await expect.poll(() => socket.events.length).toBe(1)
    expect(socket.events).toEqual(await client.events(id))
    expect(socket.events[0]).toMatchObject({ type: 'watch.event.started', data: { frame: { camera_time: time } } })
    expect(socket.looks.at(-1)).toMatchObject({ watch: id, still: false, answers: looked.answers })

    answer(0.1)
    await socket.look(bright)
    const again = await WatchSocket.open(socketUrl(id, '?after=0'), key)
    await expect.poll(() => again.events.length).toBe(2)
    expect(again.events).toEqual(await client.events(id))
    const rest = await WatchSocket.open(socketUrl(id, '?after=1'), key)
    await expect.poll(() => rest.events).toEqual(again.events.slice(1))
    expect(rest.looks).toEqual([])
  })

  test('takes the key of a page as a subprotocol, and answers all frames where the query asks for it', async () => {
    const { id, key } = await newWatch()
    const url = socketUrl(id, '?wait=true').replace('http', 'ws')
    const socket = new globalThis.WebSocket(url, ['lookout', `api-key.${key}`])
    onTestFinished(() => socket.close())
    const replies: unknown[] = []
    socket.onmessage = ({ data }) => replies.push(JSON.parse(data))
    await once(socket, 'open')
    expect(socket.protocol).toBe('lookout')
    const push = async () => {
      const before = replies.length
      socket.send(new Uint8Array(bright))
      await expect.poll(() => replies.length, { interval: 5 }).toBe(before + 1)
      return replies.at(-1)
    }
    await expect.poll(push, { interval: 20 }).toHaveProperty('answers')
  })

  test('ends when its key is revoked, and so does a stream of events', async () => {
    const { organisation, key } = await newKey(database)
    const client = new WatchClient(server, key)
    const { id } = await client.made()
    const accounts = new Accounts(database)
    const reader = await accounts.createKey({ organisation })
    const socket = await WatchSocket.open(socketUrl(id, '?after=0'), reader.key)
    const stream = await new WatchClient(server, reader.key).ask('GET', `/${id}/stream?after=0`)
    const closed = socket.closed()
    await accounts.revokeKey(reader.about.id)
    answer(0.9)
    await client.look(id, dark)
    expect(await closed).toEqual([1008, 'The API key is revoked or has expired'])
    expect(socket.events).toEqual([])
    expect(await stream.text()).not.toContain('data:')
    expect(await client.stream(id, 1, '?after=0')).toHaveLength(1)
  })

  test('is logged as one request, whose id its client gets', async () => {
    const { id, key, socket } = await newSocket()
    const headers = { authorization: `Bearer ${key}`, 'x-request-id': 'robot-7' }
    const other = await WatchSocket.open(socketUrl(id), key, { headers })
    socket.socket.close()
    other.socket.terminate()
    const line = /"clientRequestId":"robot-7".*"path":"\/v1\/watches\/:watch_id\/socket","status":101/
    await expect.poll(() => server.logs.filter((written) => line.test(written))).toHaveLength(1)
  })

  test('ends when the watch is deleted, after its last event', async () => {
    const { id, client, socket } = await newSocket()
    answer(0.9)
    await socket.look(bright)
    const closed = socket.closed()
    await client.ask('DELETE', `/${id}`)
    expect(await closed).toEqual([1000, 'The watch is deleted'])
    expect(socket.events.at(-1)).toMatchObject({ type: 'watch.event.ended', data: { reason: 'deleted' } })
  })
})

describe('a handshake is refused', () => {
  test.each([
    ['without a key', {}, 401, { type: 'authentication_error' }],
    ['with a wrong key', { protocols: ['lookout', 'api-key.wrong'] }, 401, { type: 'authentication_error' }],
    [
      'for a page of another site',
      { origin: 'https://evil.example' },
      403,
      { message: expect.stringMatching(/LOOKOUT_CORS_ORIGINS/) },
    ],
  ])('%s', async (_, options: Parameters<typeof refusalOf>[1], status, error) => {
    const { id, key } = await newWatch()
    const headers: Record<string, string> = status === 401 ? {} : { authorization: `Bearer ${key}` }
    expect(await refusalOf(socketUrl(id), { ...options, headers })).toMatchObject({ status, error })
  })

  test('in an unknown version', async () => {
    const { id, key } = await newWatch()
    const offer = { connection: 'upgrade', upgrade: 'WebSocket', 'sec-websocket-version': '7' }
    const headers = { authorization: `Bearer ${key}`, ...offer, 'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==' }
    const [response] = await once(request(socketUrl(id), { headers }).end(), 'response')
    const { error } = JSON.parse(Buffer.concat(await response.toArray()).toString())
    expect([response.statusCode, error.message]).toEqual([400, expect.stringMatching(/Sec-WebSocket-Version/)])
  })

  test.each([
    ['?after=x', 400, { param: 'after' }],
    ['?wait=maybe', 400, { param: 'wait' }],
  ])('with %s', async (query, status, error) => {
    const { id, key } = await newWatch()
    const headers = { authorization: `Bearer ${key}` }
    expect(await refusalOf(socketUrl(id, query), { headers })).toMatchObject({ status, error })
  })

  test('for watches of others, without the scope, and on other paths', async () => {
    const { id } = await newWatch()
    const other = { headers: { authorization: `Bearer ${(await newKey(database)).key}` } }
    const found = { status: 404, error: { param: 'watch_id', code: 'watch_not_found' } }
    expect(await refusalOf(socketUrl(id), other)).toMatchObject(found)
    const { key } = await newKey(database, { scopes: ['inference'] })
    const poor = { headers: { authorization: `Bearer ${key}` } }
    const denied = { status: 403, error: { code: 'insufficient_scope' } }
    expect(await refusalOf(socketUrl(id), poor)).toMatchObject(denied)
    expect(await refusalOf(`${server.url}/v1/nothing`, other)).toMatchObject({ status: 404 })
    const plain = await fetch(socketUrl(id), other)
    expect([plain.status, plain.headers.get('upgrade')]).toEqual([404, null])
  })

  test('not for pages of the server itself, and of allowed sites', async () => {
    const { id, key } = await newWatch()
    for (const origin of [server.url, 'https://robots.example']) {
      expect((await WatchSocket.open(socketUrl(id), key, { origin })).socket.readyState).toBe(1)
    }
  })
})

describe('other offers to upgrade', () => {
  test('are ignored: the request is answered as usual', async () => {
    const headers = { connection: 'Upgrade, HTTP2-Settings', upgrade: 'h2c', 'http2-settings': 'AAMAAABk' }
    for (const [method, path, status] of [
      ['GET', '/healthz', 200],
      ['POST', '/v1/chat/completions', 401],
    ] as const) {
      const [response] = await once(request(server.url + path, { method, headers }).end('{}'), 'response')
      expect(response.statusCode).toBe(status)
      response.resume()
    }
  })

  test('behind a request that is still being answered end the connection', async () => {
    const { id, key } = await newWatch()
    const { port, host } = new URL(server.url)
    const connection = connect(Number(port), '127.0.0.1')
    const head = (path: string, more: string) =>
      `GET ${path} HTTP/1.1\r\nhost: ${host}\r\nauthorization: Bearer ${key}\r\n${more}\r\n`
    const offer = 'connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n'
    connection.on('error', () => {}).resume()
    connection.write(head(`/v1/watches/${id}/stream`, '') + head(`/v1/watches/${id}/socket`, offer))
    await once(connection, 'close')
    expect((await fetch(`${server.url}/healthz`)).status).toBe(200)
  })
})

describe('a message that cannot be used', () => {
  test('gets an error in place of its reply, and the next one is taken', async () => {
    const { id, client, socket } = await newSocket()
    const errorOf = async (frame: Uint8Array, note?: object) => (await socket.push(frame, note)).error
    await expect.poll(() => errorOf(Buffer.from('not a picture'))).toMatchObject({ param: 'frame' })
    expect(await errorOf(bright, { type: 'frame', time: 'noon' })).toMatchObject({
      ...{ param: 'time', message: "Invalid 'time': expected a time such as 2027-01-31T12:00:00.5Z" },
    })
    expect(await errorOf(bright, { type: 'ping' })).toMatchObject({ param: 'type' })
    socket.socket.send('wait, please')
    expect(await errorOf(bright)).toMatchObject({ param: null, message: expect.stringMatching(/JSON object/) })
    await socket.look(bright)
    await client.ask('POST', `/${id}/pause`)
    await expect.poll(() => errorOf(bright)).toMatchObject({ message: expect.stringMatching(/paused/) })
    await client.ask('POST', `/${id}/resume`)
    await socket.look(bright)
  })

  test('is a frame for a watch that has a camera', async () => {
    const source = { type: 'rtsp', url: 'rtsp://127.0.0.1:9/none' }
    const { key } = await newKey(database, { scopes: ['admin'] })
    const { id } = await new WatchClient(server, key).made({ source, fps: 1 })
    const socket = await WatchSocket.open(socketUrl(id, '?after=0'), key)
    expect(await socket.push(bright)).toMatchObject({ type: 'error', error: { param: 'watch_id' } })
  })

  test.each([
    ['over 20 MB', (socket: WatchSocket) => socket.socket.send(Buffer.alloc(20 * 2 ** 20 + 1)), 1009],
    ['a text that is no UTF-8', (socket: WatchSocket) => socket.socket.send(Buffer.of(0xff), { binary: false }), 1007],
  ])('ends the connection: %s', async (_, send, code) => {
    const { socket } = await newSocket()
    const closed = socket.closed()
    send(socket)
    expect((await closed)[0]).toBe(code)
  })
})

test('many who follow a watch read its events in turn: others need the database too', async () => {
  const { id, client } = await newWatch()
  const followers = await Promise.all(Array.from({ length: 100 }, () => client.ask('GET', `/${id}/stream?after=0`)))
  const { use } = Database.prototype
  let [now, most] = [0, 0]
  vi.spyOn(Database.prototype, 'use').mockImplementation(async function (this: Database, work) {
    most = Math.max(most, ++now)
    try {
      return await Reflect.apply(use, this, [work])
    } finally {
      now--
    }
  } as typeof use)
  answer(0.9)
  await client.look(id, dark)
  const told = await Promise.all(followers.map((follower) => eventsOf(follower, 1)))
  expect(told).toEqual(followers.map(() => [expect.objectContaining({ type: 'watch.event.started' })]))
  // Those who follow, what runs watches, and what knows the owners of keys.
  expect(most).toBeLessThan(15)
})

describe('a client', () => {
  test('that sends more than is looked at learns that frames are dropped, in their order', async () => {
    const { socket } = await newSocket({ fps: 0.05 })
    const looked = Promise.withResolvers<void>()
    onTestFinished(() => looked.resolve())
    server.engine.script = { read: ({ replies }) => looked.promise.then(() => replies.map(() => -1)) }
    const before = server.engine.readWorks.length
    const FRAMES = 500
    const isRefused = (frame: number) => frame % 7 === 3
    for (let frame = 0; frame < FRAMES; frame++) {
      if (isRefused(frame)) socket.socket.send('{"type":"frame","time":"noon"}')
      socket.socket.send(bright)
    }
    await expect.poll(() => socket.replies.length).toBe(FRAMES)
    expect(socket.replies.map(({ error }) => error !== undefined)).toEqual(
      Array.from({ length: FRAMES }, (_, i) => isRefused(i)),
    )
    await expect.poll(() => server.engine.readWorks.length).toBe(before + 1)
    const taken = socket.replies.filter(({ type }) => type === 'frame.accepted')
    expect(taken.filter(({ dropped }) => dropped === undefined)).toMatchObject([{ frame: 1 }])
    expect(taken.filter(({ dropped }) => dropped === 'busy')).toHaveLength(taken.length - 1)
  })

  test('that sends large frames takes room in the memory for bodies, and gives it back', async () => {
    const { socket } = await newSocket()
    for (let megabytes = 0; megabytes < 30; megabytes++) {
      expect(await socket.push(Buffer.alloc(2 ** 20))).toMatchObject({ type: expect.any(String) })
    }
  })

  test('that does not read gets all events later, and misses looks', async () => {
    const { id, key, client } = await newWatch({ questions: [{ ...LAMP, event: null }] })
    const EVENTS = 4_000
    for (let seq = 1; seq <= EVENTS; seq += 500) {
      const rows = Array.from({ length: 500 }, (_, i) => ({
        ...{ watchId: id, seq: seq + i, id: `evt_${id}_${seq + i}`, expiresAt: new Date('2100-01-01') },
        body: JSON.stringify({ object: 'event', data: { seq: seq + i, text: 'x'.repeat(4_000) } }),
      }))
      await database.use((queries) => queries.insert(tables.watchEvents).values(rows))
    }
    const socket = await WatchSocket.open(socketUrl(id, '?after=0&looks=true'), key)
    socket.socket.pause()
    const LOOKS = 10
    for (let look = 0; look < LOOKS; look++) await client.look(id, bright)
    socket.socket.resume()
    await expect.poll(() => socket.events.length).toBe(EVENTS)
    expect(socket.events.map(({ data }) => (data as { seq: number }).seq)).toEqual(
      Array.from({ length: EVENTS }, (_, i) => i + 1),
    )
    expect(socket.looks.length).toBeLessThan(LOOKS)
  })

  test('gets one reply for each binary message, among any others', async () => {
    const { socket } = await newSocket()
    const text = fc.oneof(
      fc.string(),
      fc.json(),
      fc.constant('{"type":"frame"}'),
      fc.constant('{"type":"frame","wait":true}'),
    )
    const message = fc.oneof(
      fc.uint8Array({ maxLength: 2_000 }),
      fc.constantFrom<Uint8Array>(bright, dark, dark.subarray(0, 100)),
      text,
    )
    await fc.assert(
      fc.asyncProperty(fc.array(message, { maxLength: 20 }), async (messages) => {
        const before = socket.replies.length
        for (const data of messages) socket.socket.send(data)
        const frames = messages.filter((data) => typeof data !== 'string').length
        // A reply too many would be counted for the next sequence.
        await expect.poll(() => socket.replies.length, { interval: 5 }).toBe(before + frames)
      }),
      { numRuns: 40 },
    )
    expect(socket.socket.readyState).toBe(1)
  })
})

describe('a server', () => {
  const start = (keepAliveMs: number) =>
    startTestServer({
      environment: { DATABASE_URL: '', LOOKOUT_WATCHES: '8' },
      keepAliveMs,
    })

  async function connected(other: TestServer): Promise<WatchSocket> {
    const client = new WatchClient(other, other.service.apiKey!)
    const { id } = await client.made()
    return WatchSocket.open(`${other.url}/v1/watches/${id}/socket`, other.service.apiKey!)
  }

  test('that shuts down ends its sockets, also those of clients that do not answer', async () => {
    const other = await start(30_000)
    const [socket, silent] = [await connected(other), await connected(other)]
    silent.socket.pause()
    const closed = socket.closed()
    await other.close()
    expect(await closed).toEqual([1001, 'The server is shutting down'])
  })

  test('ends the connection of a client that is gone', async () => {
    const other = await start(50)
    onTestFinished(() => other.close())
    const socket = await connected(other)
    socket.socket.pause()
    await expect.poll(() => other.logs.filter((line) => /socket","status":101/.test(line))).toHaveLength(1)
  })
})
