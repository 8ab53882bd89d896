import { once } from 'node:events'
import { readdir } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { ResidentMemory } from './support/resident-memory.ts'
import { startTestServer, type TestServer } from './support/server.ts'
import { makeVideo } from './support/video.ts'

const MIB = 2 ** 20
const PADDING = Buffer.alloc(MIB)
const PADDING_PIECES = 32
const VIDEOS = 40

let server: TestServer
let web: Server
let origin: string
let smallVideo: Buffer
const fetched: string[] = []

/** A small video followed by a box of padding, which every demuxer skips. Every path yields different bytes. */
async function* padded(address: string): AsyncGenerator<Buffer, void, void> {
  yield smallVideo
  const head = Buffer.alloc(8 + 64)
  head.writeUInt32BE(head.length + PADDING_PIECES * PADDING.length)
  head.write('free', 4)
  head.write(address, 8)
  yield head
  for (let piece = 0; piece < PADDING_PIECES; piece++) yield PADDING
}

beforeAll(async () => {
  const still = { width: 64, height: 64, data: new Uint8Array(64 * 64 * 3).fill(90) }
  smallVideo = await makeVideo({ format: 'mp4', frames: Array.from({ length: 10 }, () => still) })
  web = createServer((request, response) => {
    fetched.push(request.url!)
    pipeline(Readable.from(padded(request.url!), { objectMode: false, highWaterMark: MIB }), response).catch(() => {})
  }).listen(0, '127.0.0.1')
  await once(web, 'listening')
  const { port } = web.address() as AddressInfo
  origin = `http://127.0.0.1:${port}`
  server = await startTestServer({ environment: { LOOKOUT_MEDIA_HOSTS: `127.0.0.1:${port}` } })
})
afterAll(async () => {
  await server?.close()
  web?.closeAllConnections()
  web?.close()
})
beforeEach(() => {
  fetched.length = 0
  server.engine.works.length = 0
})

const video = (path: string) => ({ type: 'video_url', video_url: { url: `${origin}${path}` } })
const ask = (content: readonly object[]) =>
  server.post('/v1/chat/completions', { model: 'service-mk1.5', messages: [{ role: 'user', content }] })
const frames = () => server.engine.works.at(-1)!.prefix.filter(({ type }) => type === 'frames')
const spooled = async () => (await readdir(join(server.directory, 'media'))).filter((name) => !name.startsWith('lock'))

test.runIf(process.platform === 'linux')(
  'a request about 1.25 GiB of videos takes no more than 512 MiB of memory',
  { timeout: 180_000 },
  async () => {
    expect((await ask([video('/first')])).status).toBe(200)
    await using memory = await ResidentMemory.watch()
    const response = await ask(Array.from({ length: VIDEOS }, (_, i) => video(`/${i}`)))
    expect(response.status, await response.text()).toBe(200)
    expect(frames().length).toBeGreaterThanOrEqual(VIDEOS)
    expect(memory.growth / MIB).toBeLessThan(512)
    await expect.poll(spooled).toEqual([])
  },
)

test('a video that is referenced twice is fetched once', async () => {
  expect((await ask([video('/twice'), video('/twice'), video('/once')])).status).toBe(200)
  expect(fetched.toSorted()).toEqual(['/once', '/twice'])
  expect(frames().length % 3).toBe(0)
})

test('nothing stays on the disk after a client disconnects', async () => {
  const client = new AbortController()
  const request = fetch(`${server.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: 'Bearer test-key', 'content-type': 'application/json' },
    body: JSON.stringify({
      model: 'service-mk1.5',
      messages: [{ role: 'user', content: Array.from({ length: 8 }, (_, i) => video(`/left${i}`)) }],
    }),
    signal: client.signal,
  })
  request.catch(() => {})
  await expect.poll(async () => (await spooled()).length).toBeGreaterThan(0)
  client.abort()
  await expect.poll(spooled).toEqual([])
})
