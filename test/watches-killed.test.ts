import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import sharp from 'sharp'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { encodeCameraVideo, plainImage } from './support/camera-video.ts'
import { RtspCamera } from './support/rtsp-camera.ts'
import { KEY } from './support/server.ts'
import { createTestDatabase } from './support/services.ts'
import { type SilentServer, startSilentServer } from './support/silent-server.ts'
import { WATCH, WatchClient, type WatchEvent } from './support/watch-client.ts'
import { WebhookReceiver } from './support/webhook-receiver.ts'

/** How often a server is killed. */
const KILLS = Number(process.env.LOOKOUT_TEST_KILLS ?? 2)
/** How often one of two is. */
const TURNS = Math.ceil(KILLS / 2)

let directory: string
let pictures: readonly Buffer[]
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'lookout-watches-'))
  const solid = (background: string) => sharp({ create: { width: 64, height: 64, channels: 3, background } })
  pictures = await Promise.all(['white', 'black'].map((colour) => solid(colour).png().toBuffer()))
})
afterAll(() => rm(directory, { recursive: true, force: true, maxRetries: 5 }))

async function start(environment: Record<string, string>): Promise<SilentServer> {
  const server = await startSilentServer({ LOOKOUT_API_KEY: KEY, LOOKOUT_WEBHOOK_HOSTS: '127.0.0.1', ...environment })
  onTestFinished(() => void server.child.kill('SIGKILL'))
  return server
}

async function kill({ child }: SilentServer): Promise<void> {
  child.kill('SIGKILL')
  await once(child, 'exit')
}

async function receiver(): Promise<WebhookReceiver> {
  const hook = await WebhookReceiver.start()
  onTestFinished(() => hook.close())
  return hook
}

const client = (server: SilentServer) => new WatchClient(server, KEY)

/** Makes a watch that sends its events. @returns its id. */
async function add(server: SilentServer, { url }: WebhookReceiver): Promise<string> {
  const response = await client(server).ask('POST', '', { ...WATCH, webhook: { url } })
  expect(response.status).toBe(201)
  return ((await response.json()) as { id: string }).id
}

/** Pushes frames of which each starts or ends an event, until the server dies or that is over. @returns what ends it. */
function pushTo(server: SilentServer, id: string): () => Promise<void> {
  let isOver = false
  const pushing = (async () => {
    for (let frame = 1; !isOver; frame++) {
      const pushed = await client(server)
        .ask('POST', `/${id}/frames`, pictures[frame % 2]!)
        .catch(() => null)
      if (pushed === null) return
      await delay(105)
    }
  })()
  return async () => {
    isOver = true
    await pushing
  }
}

/** Waits until a server takes frames of the watch. */
async function taken(server: SilentServer, id: string): Promise<void> {
  const push = async () => (await client(server).ask('POST', `/${id}/frames?wait=true`, pictures[0]!)).status
  await expect.poll(push, { interval: 50, timeout: 60_000 }).toBe(200)
}

const pendingOf = async (server: SilentServer, id: string) =>
  ((await client(server).find(id)).webhook as { readonly pending: number }).pending

/** Each event has one number and one content, was sent at least once, and starts and ends take turns. */
function expectSound(told: readonly WatchEvent[], hook: WebhookReceiver, id: string, kills: number): void {
  const sent = new Map(hook.eventsOf(id).map((event) => [event.data.seq, event]))
  for (const event of told) expect(sent.get(event.data.seq)).toEqual(event)
  for (const event of hook.eventsOf(id)) expect(event).toEqual(sent.get(event.data.seq))
  expect(told.map(({ data }) => data.seq)).toEqual(told.map((_, i) => i + 1))
  expect(new Set(told.map((event) => event.id)).size).toBe(told.length)
  const changes = told.filter(({ type }) => type.startsWith('watch.event.'))
  expect(changes.map(({ type }) => type)).toEqual(
    changes.map((_, i) => (i % 2 === 0 ? 'watch.event.started' : 'watch.event.ended')),
  )
  for (const [i, { data }] of changes.entries())
    if (i % 2 === 1) expect(data.happening).toBe(changes[i - 1]!.data.happening)
  expect(new Set(changes.map(({ data }) => data.happening)).size).toBe(Math.ceil(changes.length / 2))
  const gaps = told.filter(({ type, data }) => type === 'watch.gap' && data.reason === 'stopped')
  expect(gaps).toHaveLength(kills)
}

test(`a watch whose server is killed ${KILLS} times goes on, and tells each change once, to its webhook too`, {
  timeout: 120_000 + KILLS * 15_000,
}, async () => {
  const hook = await receiver()
  // It refuses every third event at first, and leaves every eleventh without an answer.
  hook.answer = ({ event }) => {
    const { seq } = event.data
    const isFirst = hook.received.filter((one) => one.event.id === event.id).length === 1
    if (isFirst && seq % 11 === 0) return null
    return { status: isFirst && seq % 3 === 0 ? 500 : 200 }
  }
  const environment = { LOOKOUT_DATA_DIR: join(directory, 'alone') }
  let server = await start(environment)
  const id = await add(server, hook)
  const events = () => client(server).events(id)
  /** What was seen before each kill. */
  const seen = new Map<number, string>()
  for (let kills = 0; kills <= KILLS; kills++) {
    // It takes frames at once, though the lease of the server before has not ended.
    await taken(server, id)
    const stop = pushTo(server, id)
    const before = (await events()).length
    await expect.poll(async () => (await events()).length, { interval: 20 }).toBeGreaterThan(before + 4)
    for (const { data, id } of await events()) seen.set(data.seq, id)
    if (kills === KILLS) {
      await stop()
      break
    }
    await delay(randomInt(0, 100))
    await kill(server)
    await stop()
    server = await start(environment)
  }
  const told = await events()
  await expect.poll(() => pendingOf(server, id), { interval: 100 }).toBe(0)
  server.child.kill('SIGKILL')
  expectSound(told, hook, id, KILLS)
  // What was told before a kill is what is stored.
  for (const [seq, id] of seen) expect(told[seq - 1]!.id).toBe(id)
})

test('a clip that is recorded when its server is killed becomes unavailable', async () => {
  await using camera = await RtspCamera.start(
    encodeCameraVideo({ codec: 'h264', frames: [plainImage(64, 64, [220, 30, 30])], interval: 1 }),
  )
  const environment = { LOOKOUT_DATA_DIR: join(directory, 'clips'), LOOKOUT_CAMERA_HOSTS: '127.0.0.1' }
  const first = await start(environment)
  const source = { type: 'rtsp', url: camera.url }
  const response = await client(first).ask('POST', '', { ...WATCH, source, record: { after_seconds: 30 } })
  const { id } = (await response.json()) as { id: string }
  const statuses = async (server: SilentServer) => {
    const events = await client(server).events(id)
    return events
      .filter(({ data }) => data.clip)
      .map(({ type, data }) => [type, (data.clip as { status: string }).status])
  }
  await expect
    .poll(async () => (await statuses(first))[0], { interval: 20 })
    .toEqual(['watch.event.started', 'pending'])
  await kill(first)
  const second = await start(environment)
  const told = ['watch.event.clip', 'unavailable']
  await expect.poll(async () => (await statuses(second)).find(([type]) => type === told[0])).toEqual(told)
  expect((await statuses(second))[0]).toEqual(['watch.event.started', 'unavailable'])
})

const database = await createTestDatabase()
const title = database === null ? ' (PostgreSQL is not running here)' : ''

describe.skipIf(database === null)(`of two servers on one PostgreSQL${title}`, () => {
  afterAll(() => database?.drop())

  test('the one that lives takes over watches and deliveries from the one that is killed', {
    timeout: 120_000 + TURNS * 30_000,
  }, async () => {
    const hook = await receiver()
    const shared = {
      DATABASE_URL: database!.url,
      LOOKOUT_BLOBS: join(directory, 'files'),
      STAND_IN_LEASE_MS: '4000',
    }
    const open = (name: string) => start({ ...shared, LOOKOUT_DATA_DIR: join(directory, name) })
    let [running, other] = [
      { name: 'one', server: await open('one') },
      { name: 'other', server: await open('other') },
    ]
    const id = await add(running.server, hook)
    const seen = new Map<number, string>()
    for (let kills = 0; kills <= TURNS; kills++) {
      await taken(running.server, id)
      if (kills === TURNS) break
      // Their answers would come after the kill.
      hook.answer = () => null
      const stop = pushTo(running.server, id)
      await expect.poll(() => pendingOf(other.server, id), { interval: 20 }).toBeGreaterThan(4)
      for (const { data, id: event } of await client(other.server).events(id)) seen.set(data.seq, event)
      await delay(randomInt(0, 100))
      await kill(running.server)
      await stop()
      hook.answer = () => ({ status: 200 })
      // The one that was killed comes again beside it.
      await taken(other.server, id)
      await expect.poll(() => pendingOf(other.server, id), { interval: 100, timeout: 60_000 }).toBe(0)
      const restarted = { name: running.name, server: await open(running.name) }
      ;[running, other] = [other, restarted]
    }
    const told = await client(running.server).events(id)
    await expect.poll(() => pendingOf(running.server, id), { interval: 100, timeout: 60_000 }).toBe(0)
    expectSound(told, hook, id, TURNS)
    for (const [seq, id] of seen) expect(told[seq - 1]!.id).toBe(id)
  })
})
