import { randomBytes } from 'node:crypto'
import type { LookupAddress } from 'node:dns'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import type { ServerResponse } from 'node:http'
import { type AddressInfo, createServer, type Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import sharp from 'sharp'
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { Accounts } from '../src/accounts/accounts.ts'
import type { ReadQuestion } from '../src/inference/contract/work.ts'
import { Database } from '../src/storage/database.ts'
import { eq } from '../src/storage/drizzle.ts'
import * as tables from '../src/storage/schema.ts'
import { type CameraVideo, encodeCameraVideo, plainImage } from './support/camera-video.ts'
import { changedCard, type TemporaryCard } from './support/changed-card.ts'
import { outcomeOf, startLookout } from './support/command-line.ts'
import { freePort } from './support/free-port.ts'
import { HlsCamera } from './support/hls-camera.ts'
import { HttpCamera } from './support/http-camera.ts'
import { readClip } from './support/read-clip.ts'
import { describe as describeVideo, RtspCamera } from './support/rtsp-camera.ts'
import { FINGERPRINT, SecureCamera } from './support/secure-camera.ts'
import { errorOf, jsonOf, startTestServer, type TestServer } from './support/server.ts'
import { LAMP, newKey, WATCH, type Watch, WatchClient, type WatchEvent } from './support/watch-client.ts'

let server: TestServer
let card: TemporaryCard
let database: Database
let video: CameraVideo
let small: CameraVideo
/** A video for each codec whose frames differ, in which segments are cut. */
let shaded: Readonly<Record<CameraVideo['codec'], CameraVideo>>
let pictures: readonly Buffer[]
/** Cameras of the configuration. */
let configured: RtspCamera
let secured: SecureCamera
let hall: HlsCamera
/** Its watch holds the process of the organisation that most tests share, which takes long to start. */
let standing: HttpCamera
let shared: WatchClient
/** A watch looks once, and then no more. */
const STILL = { share: 1, at_least_every_seconds: 3600 }
/** What names stand for. */
const names = new Map<string, string>()
beforeAll(async () => {
  const red = plainImage(320, 180, [220, 30, 30])
  const blue = plainImage(320, 180, [30, 30, 220])
  video = encodeCameraVideo({ codec: 'h264', frames: [red, red, red, red, red, blue, blue, blue, blue, blue] })
  small = encodeCameraVideo({ codec: 'h264', frames: [plainImage(160, 120, [30, 220, 30])] })
  const shades = Array.from({ length: 20 }, (_, i) => plainImage(320, 180, [220, i * 9, 30]))
  shaded = {
    h264: encodeCameraVideo({ codec: 'h264', frames: shades }),
    h265: encodeCameraVideo({ codec: 'h265', frames: shades }),
  }
  const picture = (background: string) =>
    sharp({ create: { width: 96, height: 54, channels: 3, background } })
      .jpeg()
      .toBuffer()
  pictures = [await picture('white'), await picture('black')]
  configured = await RtspCamera.start(video, { login: { scheme: 'digest', username: 'look', password: 'out' } })
  secured = await SecureCamera.start(configured)
  hall = await HlsCamera.start(video)
  standing = await HttpCamera.start(pictures)
  card = await changedCard(({ decision: _decision, ...card }) => card)
  server = await startTestServer({
    environment: {
      DATABASE_URL: '',
      LOOKOUT_WATCHES: '32',
      LOOKOUT_MODEL_CARD: card.path,
      LOOKOUT_CAMERA_HOSTS: '127.0.0.1/32',
      LOOKOUT_SECRET: 'at least thirty-two characters of it',
      LOOKOUT_CAMERAS: JSON.stringify([
        {
          ...{ name: 'dock-1', url: secured.url, certificate: FINGERPRINT },
          ...{ username: 'look', password: ['$', '{DOCK_PASSWORD}'].join('') },
        },
        { name: 'hall', url: hall.url },
        { name: 'theirs', url: configured.url, organisations: ['another'] },
      ]),
      DOCK_PASSWORD: 'out',
    },
    watches: { beatMs: 100, silenceMs: 1_000, lagMs: 500 },
    cameras: {
      probeMs: 20_000,
      resolve: (name, _options, done) => {
        const address = names.get(name)
        const addresses: LookupAddress[] = address === undefined ? [] : [{ address, family: 4 }]
        done(address === undefined ? Object.assign(new Error('ENOTFOUND'), { code: 'ENOTFOUND' }) : null, addresses)
      },
      times: { silenceMs: 3_000, firstBackOffMs: 50, longestBackOffMs: 200, unauthorizedMs: 300 },
    },
  })
  database = await Database.open({ url: null, directory: `${server.directory}/database`, cacheDirectory: '' })
  shared = await newClient()
  const source = { type: 'jpeg', url: standing.url('/shot') }
  const made = await shared.ask('POST', '', { ...WATCH, source, fps: 0.05, motion: STILL })
  expect(made.status, await made.clone().text()).toBe(201)
})
afterAll(async () => {
  await database?.close()
  await server?.close()
  await configured?.[Symbol.asyncDispose]()
  await secured?.[Symbol.asyncDispose]()
  await hall?.[Symbol.asyncDispose]()
  await standing?.[Symbol.asyncDispose]()
  await card?.remove()
})
beforeEach(() => answer(0.1))

function answer(yes: number) {
  const odds: Record<string, number> = { 'Yes.': yes, 'No.': 1 - yes }
  server.engine.script = {
    read: ({ replies }: ReadQuestion) => replies.map((reply) => Math.log(odds[reply] ?? 1e-9)),
    texts: ['<point_box mention="lamp"> (100,200) (300,400) </point_box>'],
  }
}

/** A client of an organisation of its own, which has a process of its own for its cameras. */
async function newClient(scopes: ('watch' | 'admin' | 'inference')[] = ['watch', 'admin', 'inference']) {
  return new WatchClient(server, (await newKey(database, { scopes })).key)
}

/** Waits for what the server is asked for. */
const poll = <Value>(read: () => Value) => expect.poll(read, { interval: 100 })

/** Ids of this process's children that speak to cameras. */
function cameraProcesses(): number[] {
  return readdirSync('/proc').flatMap((pid) => {
    if (!/^\d+$/.test(pid)) return []
    try {
      const parent = readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ')[1]!.split(' ')[1]
      const command = readFileSync(`/proc/${pid}/cmdline`, 'latin1')
      return Number(parent) === process.pid && command.includes('camera-process') ? [Number(pid)] : []
    } catch {
      return []
    }
  })
}

const rtsp = (url: string, login = {}) => ({ type: 'rtsp', url, ...login })
const lamp = async (client: WatchClient, id: string) => (await client.changes(id)).map(({ type }) => type)
const told = async (client: WatchClient, id: string) =>
  (await client.events(id)).map(({ type, data }) => `${type} ${data.reason ?? ''}`.trim())
/** When the camera was there, and when not. A busy machine may be late for looks, too. */
const turns = async (client: WatchClient, id: string) =>
  (await told(client, id)).filter((one) => /^watch[.]o(n|ff)line/.test(one))
const isRunning = (client: WatchClient, id: string) => poll(async () => (await client.find(id)).status).toBe('running')
const isOffline = (client: WatchClient, id: string, reason: string) =>
  poll(async () => {
    const { status, reason } = await client.find(id)
    return { status, reason }
  }).toEqual({ status: 'offline', reason })

describe('a camera', () => {
  test('is looked at in a region, and what moves outside is no reason to look', async () => {
    const halves = (left: number, right: number) => ({
      ...{ width: 320, height: 180 },
      data: Uint8Array.from({ length: 320 * 180 * 3 }, (_, i) => (i % (320 * 3) < 160 * 3 ? left : right)),
    })
    const frames = [60, 60, 60, 60, 60, 200, 200, 200, 200, 200].map((left) => halves(left, 130))
    await using camera = await RtspCamera.start(encodeCameraVideo({ codec: 'h264', frames }))
    const client = shared
    const motion = { share: 0.2, at_least_every_seconds: 3600 }
    const watch = (left: number) =>
      client.made({ source: rtsp(camera.url), motion, region: { top: 0, left, bottom: 1, right: left + 0.5 } })
    const looksOf = async (id: string) =>
      (await client.find(id)).counts as { looks: number; dropped: { still: number } }
    const { id: right } = await watch(0.5)
    await poll(async () => (await looksOf(right))?.dropped.still).toBeGreaterThan(10)
    expect((await looksOf(right)).looks).toBe(1)
    const { image } = server.engine.readWorks.at(-1)!.prefix.find((part) => part.type === 'image')!
    expect(image.width / image.height).toBeLessThan(1)
    expect(image.data.every((value) => Math.abs(value - 130) < 16)).toBe(true)
    const { id: left } = await watch(0)
    await poll(async () => (await looksOf(left))?.looks).toBeGreaterThan(2)
  })

  test('is looked at, and shows in events', async () => {
    await using camera = await RtspCamera.start(video)
    const client = shared
    const { id, source } = await client.made({ source: rtsp(camera.url) })
    expect(source).toEqual({ type: 'rtsp', url: camera.url })
    await isRunning(client, id)
    answer(0.9)
    await poll(() => lamp(client, id)).toEqual(['watch.event.started'])
    const [started] = await client.changes(id)
    expect(started!.data.frame).toMatchObject({ width: 320, height: 180, file_id: expect.stringMatching(/^file-/) })
    const frame = await client.ask('GET', `/${id}/frame`)
    expect(frame.headers.get('content-type')).toBe('image/jpeg')
    expect(await sharp(await frame.arrayBuffer()).metadata()).toMatchObject({ format: 'jpeg', width: 320, height: 180 })
    const pushed = await client.ask('POST', `/${id}/frames`, pictures[0])
    expect([pushed.status, (await errorOf(pushed)).message]).toEqual([
      400,
      'The frames of this watch come from its camera',
    ])
    await client.ask('DELETE', `/${id}`)
    await expect.poll(() => camera.viewers).toBe(0)
  })

  test.each(['mjpeg', 'jpeg'] as const)('may send pictures, as %s', async (type) => {
    await using camera = await HttpCamera.start(pictures, { closes: type === 'jpeg' })
    const client = shared
    answer(0.9)
    const { id } = await client.made({ source: { type, url: camera.url(type === 'jpeg' ? '/shot' : '/stream') } })
    await poll(() => lamp(client, id)).toEqual(['watch.event.started'])
    // Between its connections too, of which it may want one for each picture.
    for (const from = camera.pictures; camera.pictures < from + 3; )
      expect((await client.ask('GET', `/${id}/frame`)).status).toBe(200)
  })

  test('has no gaps between key frames that are far apart', async () => {
    const frames = Array.from({ length: 15 }, () => plainImage(320, 180, [220, 30, 30]))
    await using camera = await RtspCamera.start(encodeCameraVideo({ codec: 'h264', frames, interval: 15 }))
    const client = shared
    const { id } = await client.made({ source: rtsp(camera.url), decode: 'key_frames' })
    const looks = async () => ((await client.find(id)).counts as { looks: number }).looks
    await poll(looks).toBeGreaterThan(1)
    expect((await told(client, id)).filter((one) => one.startsWith('watch.gap'))).toEqual([])
  })

  test('may refresh its pictures in parts, without key frames, and has clips', async () => {
    const frames = Array.from({ length: 41 }, () => plainImage(320, 180, [220, 30, 30]))
    const options = { 'x264-params': 'intra-refresh=1:keyint=10' }
    const whole = encodeCameraVideo({ codec: 'h264', frames, options })
    const behaviour = { sdp: describeVideo(whole), setsInSdpOnly: true }
    await using camera = await RtspCamera.start({ ...whole, units: whole.units.slice(1) }, behaviour)
    const client = shared
    const record = { before_seconds: 1, after_seconds: 1 }
    const { id } = await client.made({ source: rtsp(camera.url), record })
    await isRunning(client, id)
    answer(0.9)
    await poll(() => lamp(client, id)).toEqual(['watch.event.started', 'watch.event.clip'])
    const clip = await client.ask('GET', `/${id}/events/${(await client.changes(id))[0]!.data.seq}/clip`)
    expect((await readClip(Buffer.from(await clip.arrayBuffer()))).pictures).toBeGreaterThan(0)
  })

  test('of the configuration is known by its name alone, and is shared', async () => {
    const { key } = await newKey(database, { scopes: ['watch', 'inference'] })
    const client = new WatchClient(server, key)
    const list = async () => (await client.cameras()).data
    const unused = { object: 'camera', status: 'unused', reason: null, message: null }
    expect(await list()).toEqual([
      { name: 'dock-1', ...unused },
      { name: 'hall', ...unused },
    ])
    const source = { type: 'camera', camera: 'dock-1' }
    const [one, other] = [await client.made({ source }), await client.made({ source, decode: 'all' })]
    await isRunning(client, one.id)
    await isRunning(client, other.id)
    await expect.poll(() => configured.viewers).toBe(1)
    const { id: watched } = await client.made({ source: { type: 'camera', camera: 'hall' } })
    await isRunning(client, watched)
    await poll(list).toMatchObject([{ status: 'delivering' }, { status: 'delivering' }])
    expect(JSON.stringify(await client.find(one.id))).not.toContain('127.0.0.1')
    const second = await startTestServer({
      environment: {
        ...{
          DATABASE_URL: '',
          LOOKOUT_DATA_DIR: server.directory,
          LOOKOUT_WATCHES: '1',
          LOOKOUT_MODEL_CARD: card.path,
        },
        LOOKOUT_CAMERAS: JSON.stringify([{ name: 'hall', url: hall.url }]),
      },
    })
    onTestFinished(() => second.close())
    const there = new WatchClient(second, key)
    const elsewhere = async () => (await there.cameras()).data
    const hallIs = (status: string) => [{ name: 'hall', object: 'camera', status, reason: null, message: null }]
    await poll(elsewhere).toEqual(hallIs('delivering'))
    // Held elsewhere, where no frame has come yet.
    const isHall = eq(tables.watches.id, watched)
    await client.ask('POST', `/${watched}/pause`)
    const lease = async () =>
      (await database.use((queries) => queries.select().from(tables.watches).where(isHall)))[0]!.lease
    await poll(lease).toBeNull()
    const unseen = { lease: 'another', leasedUntil: new Date(Date.now() + 3_600_000), seenAt: null }
    await database.use((queries) => queries.update(tables.watches).set(unseen).where(isHall))
    expect(await elsewhere()).toEqual(hallIs('offline'))
    expect((await client.ask('GET', `/${watched}/frame`)).status).toBe(404)
    for (const camera of ['theirs', 'none']) {
      const response = await client.ask('POST', '', { ...WATCH, source: { type: 'camera', camera } })
      expect([response.status, (await errorOf(response)).param]).toEqual([400, 'source.camera'])
    }
  })
})

describe('a client is told', () => {
  const refused = async (source: object, client?: WatchClient, query = '') => {
    const response = await (client ?? shared).ask('POST', query, { ...WATCH, source })
    return { status: response.status, ...(await errorOf(response)) }
  }

  test('what it may not do', async () => {
    const outside = {
      status: 400,
      code: 'camera_not_allowed',
      message: expect.stringContaining('LOOKOUT_CAMERA_HOSTS'),
    }
    expect(await refused(rtsp('rtsp://169.254.169.254/live'))).toMatchObject(outside)
    names.set('inside.example', '169.254.169.254')
    expect(await refused(rtsp('rtsp://inside.example/live'))).toMatchObject(outside)
    expect(await refused(rtsp('rtsp://user:word@127.0.0.1/live'))).toMatchObject({ status: 400, param: 'source.url' })
    expect(await refused({ type: 'mjpeg', url: 'rtsp://127.0.0.1/live' })).toMatchObject({
      status: 400,
      param: 'source.url',
    })
    for (const [type, url] of [
      ['rtsp', 'rtsp://127.0.0.1:99999/'],
      ['hls', 'https://exa mple/'],
    ])
      expect(await refused({ type, url })).toMatchObject({
        message: "Invalid 'source.url': expected a valid host and, optionally, a port of at most 65535",
      })
    expect(await refused({ type: 'webrtc', url: 'http://127.0.0.1/whep' })).toMatchObject({
      ...{ status: 400, param: 'source.type', message: expect.stringContaining('MediaMTX') },
    })
    const watcher = await newClient(['watch', 'inference'])
    expect(await refused(rtsp('rtsp://127.0.0.1/live'), watcher)).toMatchObject({
      status: 403,
      code: 'insufficient_scope',
    })
  })

  test('where a camera is if it may say so, else only its host', async () => {
    await using camera = await RtspCamera.start(video)
    const { organisation, key } = await newKey(database, { scopes: ['watch', 'admin', 'inference'] })
    const accounts = new Accounts(database)
    const { key: other } = await accounts.createKey({ organisation, scopes: ['watch'] })
    const [client, watcher] = [new WatchClient(server, key), new WatchClient(server, other)]
    const url = `${camera.url}/user=a_password=wrong-word?token=wrong-word`
    const { id, source } = await client.made({ source: rtsp(url) })
    expect(source).toEqual(rtsp(url))
    await isRunning(client, id)
    const hidden = rtsp(`rtsp://127.0.0.1:${camera.port}/***`)
    expect([await watcher.find(id), await jsonOf(await watcher.ask('GET', ''))]).toMatchObject([
      { source: hidden },
      { data: [{ source: hidden }] },
    ])
    const row = async (watch: string) => {
      const [one] = await database.use((queries) =>
        queries.select().from(tables.watches).where(eq(tables.watches.id, watch)),
      )
      return one!.settings
    }
    const store = async (source: object) => {
      const settings = JSON.stringify({ ...JSON.parse(await row(id)), source })
      await database.use((queries) => queries.update(tables.watches).set({ settings }).where(eq(tables.watches.id, id)))
    }
    expect(await row(id)).not.toContain('wrong-word')
    // Nothing of an address without a path is secret.
    const plain = await client.made({ source: rtsp(camera.url.replace(/(?<=\d)\/.*/, '')) })
    expect(JSON.parse(await row(plain.id)).source.credentials).toBeNull()
    // Stored with another secret.
    await client.ask('POST', `/${id}/pause`)
    await store({ ...JSON.parse(await row(id)).source, credentials: `sealed:${'A'.repeat(100)}` })
    await poll(async () => (await client.find(id)).status).toBe('paused')
    await client.ask('POST', `/${id}/resume`)
    await isOffline(client, id, 'unauthorized')
    expect((await client.find(id)).message).toMatch(/^LOOKOUT_SECRET is not the one/)
    // As earlier versions stored it.
    await store({ ...rtsp(url), credentials: null })
    expect([(await client.find(id)).source, (await watcher.find(id)).source]).toEqual([rtsp(url), hidden])
  })

  test('that a camera delivers nothing, if it asks', async () => {
    await using camera = await RtspCamera.start(video, { login: { scheme: 'digest', username: 'a', password: 'b' } })
    const client = await newClient()
    const source = rtsp(camera.url, { username: 'a', password: 'wrong-word' })
    const error = await refused(source, client, '?probe=true')
    expect(error).toMatchObject({
      status: 400,
      code: 'camera_unreachable',
      message: expect.stringContaining('unauthorized: The camera refuses the user name or the password'),
    })
    expect(await jsonOf(await client.ask('GET', ''))).toMatchObject({ data: [] })
    const response = await client.ask('POST', '?probe=true', { ...WATCH, source: { ...source, password: 'b' } })
    const { id } = await jsonOf<{ id: string }>(response)
    expect(response.status).toBe(201)
    await isRunning(client, id)
    await expect.poll(() => camera.viewers).toBe(1)
    await client.ask('DELETE', `/${id}`)
    expect(server.logs.join('')).not.toMatch(/wrong-word/)
  })
})

describe('a camera may', () => {
  test('die, and come back: what went on goes on', async () => {
    const camera = await RtspCamera.start(video)
    const client = shared
    answer(0.9)
    const { id } = await client.made({ source: rtsp(camera.url) })
    await poll(() => lamp(client, id)).toEqual(['watch.event.started'])
    const { port } = camera
    await camera[Symbol.asyncDispose]()
    await isOffline(client, id, 'refused')
    await using _again = await RtspCamera.start(video, {}, port)
    await isRunning(client, id)
    expect(await lamp(client, id)).toEqual(['watch.event.started'])
    expect((await turns(client, id)).at(-1)).toBe('watch.online')
  })

  test('deliver nothing at first: the silence begins with the watch, and ends with the first frame', async () => {
    const client = shared
    const port = await freePort()
    const before = Date.now()
    const { id } = await client.made({ source: rtsp(`rtsp://127.0.0.1:${port}/`) })
    await isOffline(client, id, 'refused')
    expect((await client.find(id)).message).toBe('Nothing listens at the port of the camera')
    const [row] = await database.use((queries) =>
      queries.select().from(tables.watches).where(eq(tables.watches.id, id)),
    )
    expect(row!.seenAt).toBeNull()
    const after = Date.now()
    await using _late = await RtspCamera.start(video, {}, port)
    await isRunning(client, id)
    const events = await client.events(id)
    const of = (wanted: string) => events.find(({ type }) => type === wanted)!.data
    const { from, to } = of('watch.online')
    expect(from).toBe(of('watch.offline').from)
    expect(Date.parse(from as string)).toBeGreaterThanOrEqual(before)
    // What counts as silence was over before the camera was started.
    expect(Date.parse(from as string)).toBeLessThan(after)
    expect(Date.parse(to as string)).toBeGreaterThanOrEqual(after)
  })

  test('stand still, and send what it had to say at once: only the end is looked at', async () => {
    let sent = 0
    await using camera = await RtspCamera.start(video, {
      clockOffset: 0,
      timestampOf: (unit) => {
        sent = unit
        return unit * 9_000
      },
    })
    const client = shared
    const { id } = await client.made({ source: rtsp(camera.url), decode: 'all' })
    await isRunning(client, id)
    const looks = client.stream(id, 20, '?looks=true')
    const from = Date.now()
    const first = sent
    camera.behaviour.hangs = true
    await expect.poll(() => sent, { interval: 10 }).toBeGreaterThan(first + 6)
    const to = Date.now()
    camera.behaviour.hangs = false
    const times = (await looks).flatMap(
      ({ frame }) => Date.parse((frame as { camera_time: string } | undefined)?.camera_time ?? '') || [],
    )
    expect(times.some((time) => time > to)).toBe(true)
    // One may have been under way when it stood still.
    expect(times.filter((time) => time > from && time < to).length).toBeLessThanOrEqual(2)
  })

  test('change its size', async () => {
    await using camera = await RtspCamera.start(video)
    const client = shared
    const { id } = await client.made({ source: rtsp(camera.url), decode: 'all' })
    await isRunning(client, id)
    camera.behaviour.video = small
    answer(0.9)
    const size = async () =>
      (await sharp(await (await client.ask('GET', `/${id}/frame`)).arrayBuffer()).metadata()).width
    await poll(size).toBe(160)
    await poll(() => lamp(client, id)).toEqual(['watch.event.started'])
  })

  test('take another password', async () => {
    const login = { scheme: 'digest', username: 'a', password: 'old' } as const
    await using camera = await RtspCamera.start(video, { login: { ...login } })
    const client = shared
    const { id } = await client.made({ source: rtsp(camera.url, { username: 'a', password: 'new' }) })
    await isOffline(client, id, 'unauthorized')
    camera.behaviour.login!.password = 'new'
    await isRunning(client, id)
  })

  test('send elsewhere, where no connection goes', async () => {
    await using inside = await RtspCamera.start(video)
    await using camera = await RtspCamera.start(video, { redirect: inside.url })
    const client = shared
    const { id } = await client.made({ source: rtsp(camera.url) })
    await isOffline(client, id, 'refused')
    expect(inside.requests).toEqual([])
    const message = 'The camera redirects elsewhere, which Lookout does not follow'
    expect(await client.find(id)).toMatchObject({ message })
    const told = () =>
      server.logs.join('').split(`port ${camera.port}, delivers nothing: refused: ${message}`).length - 1
    // It is tried again, and told once.
    const tries = camera.requests.length
    await expect.poll(() => camera.requests.length).toBeGreaterThan(tries + 2)
    expect(told()).toBe(1)
  })

  test('have a name that comes to stand for a forbidden address', async () => {
    await using camera = await RtspCamera.start(video)
    names.set('moves.example', '127.0.0.1')
    const client = shared
    const { id } = await client.made({ source: rtsp(`rtsp://moves.example:${camera.port}/live`) })
    await isRunning(client, id)
    names.set('moves.example', '10.0.0.1')
    camera.cut()
    await isOffline(client, id, 'not_allowed')
  })

  test('take its process with it, and all come back', async () => {
    await using camera = await RtspCamera.start(video)
    const client = await newClient()
    answer(0.9)
    const others = cameraProcesses()
    const { id } = await client.made({ source: rtsp(camera.url) })
    await poll(() => lamp(client, id)).toEqual(['watch.event.started'])
    const before = cameraProcesses()
    for (const pid of before) if (!others.includes(pid)) process.kill(pid, 'SIGKILL')
    await expect.poll(() => cameraProcesses().filter((pid) => !before.includes(pid)).length).toBeGreaterThan(0)
    await isRunning(client, id)
    const { counts } = await client.find(id)
    const looks = (counts as { looks: number }).looks
    await poll(async () => ((await client.find(id)).counts as { looks: number }).looks).toBeGreaterThan(looks)
    expect(await lamp(client, id)).toEqual(['watch.event.started'])
  })
})

describe('a server with little patience', () => {
  let hasty: TestServer
  let accounts: Database
  beforeAll(async () => {
    hasty = await startTestServer({
      environment: {
        ...{ DATABASE_URL: '', LOOKOUT_WATCHES: '8', LOOKOUT_MODEL_CARD: card.path },
        ...{ LOOKOUT_CAMERA_HOSTS: '127.0.0.1/32', LOOKOUT_METRICS_PORT: '0' },
      },
      watches: { beatMs: 100, silenceMs: 1_000 },
      cameras: {
        probeMs: 100,
        times: { silenceMs: 200, firstBackOffMs: 50, longestBackOffMs: 200, unauthorizedMs: 300 },
      },
    })
    accounts = await Database.open({ url: null, directory: `${hasty.directory}/database`, cacheDirectory: '' })
  })
  afterAll(async () => {
    await accounts?.close()
    await hasty?.close()
  })
  const hastyClient = async () =>
    new WatchClient(hasty, (await newKey(accounts, { scopes: ['watch', 'admin', 'inference'] })).key)

  test('lets a camera that sends at first no key frame deliver, also where a client waits for it', async () => {
    // The key frame comes after 0.4 seconds, and again each half second.
    const units = [...video.units.slice(1, 5), video.units[0]!]
    await using camera = await RtspCamera.start({ ...video, units })
    const client = await hastyClient()
    const body = { ...WATCH, source: rtsp(camera.url) }
    await poll(async () => (await client.ask('POST', '?probe=true', body)).status).toBe(201)
  })

  test('watches a camera that sends a picture a second', async () => {
    await using camera = await RtspCamera.start(video, { fps: 1 })
    const client = await hastyClient()
    const { id } = await client.made({ source: rtsp(camera.url), fps: 1, decode: 'all' })
    const frames = async () => ((await client.find(id)).counts as { frames: number } | null)?.frames
    await poll(frames).toBeGreaterThan(1)
  })

  test('watches a camera that hangs, which metrics show without its address, and that goes on', async () => {
    await using camera = await RtspCamera.start(video)
    const client = await hastyClient()
    const { id } = await client.made({ source: rtsp(camera.url) })
    await isRunning(client, id)
    camera.behaviour.hangs = true
    await isOffline(client, id, 'silent')
    const text = await (await fetch(hasty.service.metricsUrl!)).text()
    for (const line of [
      'cameras{state="offline"}',
      'camera_connections_total',
      'camera_failures_total{reason="silent"}',
      'camera_received_bytes_total',
      'camera_frames_total',
      'camera_decoded_frames_total',
      'watch_events_total{type="watch.offline"}',
    ]) {
      const value = text.split('\n').find((one) => one.startsWith(`lookout_${line} `))
      expect(Number(value?.split(' ').at(-1)), line).toBeGreaterThan(0)
    }
    expect(text).not.toContain('127.0.0.1')
    camera.behaviour.hangs = false
    await isRunning(client, id)
    // A busy machine may hold the video up for a second, which is silence here.
    await poll(async () => (await turns(client, id)).slice(-2)).toEqual(['watch.offline silent', 'watch.online'])
  })

  test('watches a camera that sends its first picture twice, and the next one after two seconds', async () => {
    await using camera = await HttpCamera.start(pictures, { fps: 0.5, startsTwice: true })
    await (await hastyClient()).made({ source: { type: 'mjpeg', url: camera.url('/stream') }, fps: 0.2 })
    await poll(() => camera.longest).toBeGreaterThan(3)
  })
})

describe('over TLS', () => {
  const other = `sha256:${'0'.repeat(64)}`

  test('a camera is watched once its certificate is trusted', async () => {
    await using http = await HttpCamera.start(pictures, { closes: true })
    await using plain = await RtspCamera.start(video, { login: { scheme: 'basic', username: 'a', password: 'b' } })
    await using stream = await SecureCamera.start(plain)
    await using shots = await SecureCamera.start({ url: http.url('/shot') })
    const client = shared
    const short = FINGERPRINT.replaceAll(':', '').replace('sha256', 'sha256:').toLowerCase()
    for (const [source, refused, trusted] of [
      [rtsp(stream.url, { username: 'a', password: 'b' }), [undefined, other], [FINGERPRINT]],
      [{ type: 'jpeg', url: shots.url }, [other], ['any', short]],
    ] as const) {
      for (const certificate of refused) {
        const response = await client.ask('POST', '?probe=true', { ...WATCH, source: { ...source, certificate } })
        const { code, message } = await errorOf(response)
        expect([response.status, code, message]).toEqual([
          ...[400, 'camera_unreachable'],
          expect.stringContaining("untrusted: its certificate cannot be verified. 'source.certificate'"),
        ])
      }
      expect([plain.requests, http.authorizations]).toEqual([[], []])
      for (const certificate of trusted) {
        const made = await client.made({ source: { ...source, certificate } })
        expect(made.source).toEqual({ type: source.type, url: source.url, certificate })
        await isRunning(client, made.id)
        await client.ask('DELETE', `/${made.id}`)
      }
      plain.requests.length = 0
      http.authorizations.length = 0
      plain.cut()
      http.cut()
    }
    const { id } = await client.made({ source: rtsp(stream.url) })
    await isOffline(client, id, 'untrusted')
  })

  test('what is no certificate is refused', async () => {
    const client = shared
    const refused = async (source: object) => errorOf(await client.ask('POST', '', { ...WATCH, source }))
    for (const certificate of ['', 'all', 'sha256:00', `md5:${'0'.repeat(64)}`])
      expect(await refused(rtsp('rtsps://127.0.0.1/live', { certificate }))).toMatchObject({
        param: 'source.certificate',
      })
    expect(await refused(rtsp('rtsp://127.0.0.1/live', { certificate: 'any' }))).toMatchObject({
      ...{ param: 'source.certificate', message: expect.stringContaining('TLS') },
    })
    expect(await refused(rtsp('https://127.0.0.1/live'))).toMatchObject({ param: 'source.url' })
  })

  test('a camera that speaks something else harms no other', async () => {
    await using good = await RtspCamera.start(video)
    await using stream = await SecureCamera.start(good)
    const garbage = createServer((socket) => {
      socket.on('error', () => {})
      const timer = setInterval(() => socket.write(randomBytes(20_000)), 1)
      socket.on('close', () => clearInterval(timer))
    }).listen(0, '127.0.0.1')
    onTestFinished(() => void garbage.close())
    const silent = createServer((socket) => void socket.on('error', () => {})).listen(0, '127.0.0.1')
    onTestFinished(() => void silent.close())
    await Promise.all([once(garbage, 'listening'), once(silent, 'listening')])
    const client = shared
    const { id } = await client.made({ source: rtsp(stream.url, { certificate: 'any' }) })
    await isRunning(client, id)
    const before = cameraProcesses()
    const at = (server: Server) => rtsp(`rtsps://127.0.0.1:${(server.address() as AddressInfo).port}/`)
    const quiet = [at(silent), rtsp(good.url.replace('rtsp', 'rtsps'))]
    const ids = await Promise.all(quiet.map(async (source) => (await client.made({ source })).id))
    await isOffline(client, (await client.made({ source: at(garbage) })).id, 'unreachable')
    for (const id of ids) await isOffline(client, id, 'silent')
    expect(cameraProcesses()).toEqual(before)
    // A busy machine may hold the video up for a second, which is silence here.
    expect((await turns(client, id)).filter((one) => !/ silent$|[.]online$/.test(one))).toEqual([])
    await isRunning(client, id)
  })
})

describe('over HLS', () => {
  const hls = (url: string, login = {}) => ({ type: 'hls', url, ...login })
  test.each([
    ['mpegts', 'h264', true],
    ['fmp4', 'h265', false],
  ] as const)('%s of %s is watched as it goes, and has clips', async (format, codec, closes) => {
    // In fragments, the container alone says how wide a pixel is.
    const pixelAspect = format === 'fmp4' ? { num: 4, den: 3 } : { num: 1, den: 1 }
    await using camera = await HlsCamera.start({ ...shaded[codec], pixelAspect }, format, { closes })
    await using secure = await SecureCamera.start(camera)
    const client = shared
    const { id } = await client.made({
      source: hls(secure.url, { certificate: FINGERPRINT }),
      ...{ decode: 'all', record: { before_seconds: 1, after_seconds: 1 } },
    })
    await isRunning(client, id)
    answer(0.9)
    await poll(() => lamp(client, id)).toEqual(['watch.event.started', 'watch.event.clip'])
    const [started] = await client.changes(id)
    const shown = { width: Math.round((320 * pixelAspect.num) / pixelAspect.den), height: 180 }
    expect(started!.data.frame).toMatchObject(shown)
    const clip = await client.ask('GET', `/${id}/events/${started!.data.seq}/clip`)
    const read = await readClip(Buffer.from(await clip.arrayBuffer()))
    expect(read).toMatchObject({ codec, width: 320, height: 180, pictures: read.packets.length })
    if (format === 'fmp4') expect(read.pixelAspect).toEqual(pixelAspect)
    expect(read.seconds).toBeGreaterThan(0.5)
    expect(camera.requests).toContain('/live.m3u8')
    expect(camera.requests).not.toContain('/large.m3u8')
  })

  test('a segment that is missing is left out, and the end of the list is told', async () => {
    await using camera = await HlsCamera.start(shaded.h264, 'mpegts', { misses: (sequence) => sequence % 3 === 0 })
    const client = shared
    const { id } = await client.made({ source: hls(camera.url) })
    await isRunning(client, id)
    const frames = async () => ((await client.find(id)).counts as { frames: number }).frames
    const from = camera.newest
    await expect.poll(() => camera.newest).toBeGreaterThan(from + 8)
    expect(camera.requests.filter((path) => Number(path.split('/')[1]) % 3 === 0).length).toBeGreaterThan(1)
    const later = await frames()
    await poll(frames).toBeGreaterThan(later)
    // A server that has restarted counts from the beginning.
    camera.behaviour.newest = 3
    const before = await frames()
    camera.behaviour.newest = 4
    await poll(frames).toBeGreaterThan(before)
    camera.behaviour.hasEnded = true
    await isOffline(client, id, 'ended')
    camera.behaviour.newest = null
    camera.behaviour.hasEnded = false
    await isRunning(client, id)
  })

  test('a camera may look for cookies, and redirect to itself', async () => {
    const start = (response: ServerResponse) => {
      const { url, headers } = response.req
      const step = Number(url!.split('?')[1] ?? 0)
      const location = step === 2 ? '../index.m3u8' : `?${step + 1}`
      const isLost = headers.cookie !== [undefined, 'session=a', 'session=a; cookieCheck=1'][step]
      const cookie = ['session=a; Path=/', 'cookieCheck=1; Path=/; HttpOnly', 'session=a'][step]
      response.writeHead(isLost ? 403 : 302, { location, 'set-cookie': cookie }).end('moved')
    }
    await using camera = await HlsCamera.start(shaded.h264, 'mpegts', { answers: { '/start/index.m3u8': start } })
    const client = shared
    const { id } = await client.made({ source: hls(camera.url.replace('/index', '/start/index')) })
    await isRunning(client, id)
  })

  test('a camera may redirect each time to an address that is good for once', async () => {
    const used = new Set<string>()
    let refused = 0
    const live = (response: ServerResponse) => {
      const url = response.req.url!
      if (!url.includes('?')) response.writeHead(302, { location: `?token=${randomBytes(8).toString('hex')}` }).end()
      else if (used.has(url)) response.writeHead(403).end(String(++refused))
      else response.end(used.add(url) && camera.playlist())
    }
    await using camera = await HlsCamera.start(shaded.h264, 'mpegts', { answers: { '/live.m3u8': live } })
    const client = shared
    const { id } = await client.made({ source: hls(camera.url) })
    await isRunning(client, id)
    await poll(() => used.size).toBeGreaterThan(3)
    expect(refused).toBe(0)
  })

  const media = (...lines: string[]) =>
    ['#EXTM3U', '#EXT-X-TARGETDURATION:1', ...lines, '#EXTINF:1,', '/0/a', ''].join('\n')
  /** Never ends, the first time. */
  const endless = () => {
    let isNew = true
    return (response: ServerResponse) => {
      if (!isNew) return void response.destroy()
      isNew = false
      response.writeHead(200)
      const timer = setInterval(() => response.write(Buffer.alloc(1e6, '#\n')), 1)
      response.on('close', () => clearInterval(timer))
    }
  }
  const redirect = (location: string) => (response: ServerResponse) => response.writeHead(302, { location }).end()
  const refusals: [string, string, HlsCamera['behaviour']['answers']][] = [
    ['elsewhere', 'not_allowed', { '/live.m3u8': media().replace('/0/a', 'http://127.0.0.1:1/a') }],
    ['with a header elsewhere', 'not_allowed', { '/live.m3u8': media('#EXT-X-MAP:URI="//169.254.169.254/"') }],
    ['that are encrypted', 'unsupported_codec', { '/live.m3u8': media('#EXT-X-KEY:METHOD=AES-128,URI="key"') }],
    ['that are parts of files', 'unsupported_codec', { '/live.m3u8': media('#EXT-X-BYTERANGE:9@0') }],
    [
      'with a header that is part of a file',
      'unsupported_codec',
      { '/live.m3u8': media('#EXT-X-MAP:URI="/a",BYTERANGE="9@0"') },
    ],
    ['that are complete', 'ended', { '/live.m3u8': media('#EXT-X-ENDLIST') }],
    ['that are rubbish', 'no_video', { '/live.m3u8': media(), '/0/a': randomBytes(100_000) }],
    ['of nothing', 'no_video', { '/live.m3u8': '<html>' }],
    ['of variants of variants', 'unreachable', { '/live.m3u8': '#EXTM3U\n#EXT-X-STREAM-INF:A=1\n/index.m3u8' }],
    ['that are redirected', 'refused', { '/live.m3u8': redirect('http://127.0.0.1:1/') }],
    ['that are redirected for ever', 'refused', { '/live.m3u8': redirect('/live.m3u8') }],
    ['that are gone', 'refused', { '/live.m3u8': (response) => response.writeHead(410).end() }],
  ]
  test('segments that no camera may send are refused, for what they are, and harm no other camera', async () => {
    await using good = await HlsCamera.start(shaded.h264)
    const client = shared
    const { id } = await client.made({ source: hls(good.url), fps: 2 })
    await isRunning(client, id)
    const before = cameraProcesses()
    const refused = await Promise.all(
      refusals.map(async ([name, , answers]) => {
        const camera = await HlsCamera.start(shaded.h264, 'mpegts', { answers })
        onTestFinished(() => camera[Symbol.asyncDispose]())
        return [name, (await client.made({ source: hls(camera.url), fps: 2 })).id] as const
      }),
    )
    const told = async () => {
      const { data } = await jsonOf<{ data: Watch[] }>(await client.ask('GET', '?limit=100'))
      const watches = new Map(data.map((watch) => [watch.id, watch]))
      return refused.map(([name, id]) => [name, watches.get(id)?.status, watches.get(id)?.reason])
    }
    await poll(told).toEqual(refusals.map(([name, reason]) => [name, 'offline', reason]))
    for (const [answers, message] of [
      [{ '/live.m3u8': endless() }, 'A playlist of the camera exceeds 0.25 MiB'],
      [{ '/live.m3u8': media(), '/0/a': endless() }, 'A segment of the camera exceeds 32 MiB'],
    ] as const) {
      await using camera = await HlsCamera.start(shaded.h264, 'mpegts', { answers })
      const { id } = await client.made({ source: hls(camera.url) })
      await isOffline(client, id, 'unreachable')
      expect(server.logs.join('')).toContain(
        `port ${new URL(camera.url).port}, delivers nothing: unreachable: ${message}`,
      )
    }
    expect(cameraProcesses()).toEqual(before)
    const frames = async () => ((await client.find(id)).counts as { frames: number }).frames
    const seen = await frames()
    await poll(frames).toBeGreaterThan(seen)
  })
})

describe('a clip', () => {
  const record = { before_seconds: 1, after_seconds: 1 }
  type Clip = {
    readonly status: string
    readonly file_id: string | null
    readonly reason: string | null
    readonly from: string
    readonly to: string
  }
  const clipOf = (event: WatchEvent | undefined) => event?.data.clip as Clip | null | undefined
  /** The `watch.event.clip` events, once there are `count`. */
  const clips = async (client: WatchClient, id: string, count = 1) => {
    const told = async () => (await client.events(id)).filter(({ type }) => type === 'watch.event.clip')
    await poll(async () => (await told()).length).toBe(count)
    return told()
  }
  const pending = (client: WatchClient, id: string) =>
    expect.poll(async () => clipOf((await client.changes(id))[0])?.status, { interval: 20 }).toBe('pending')

  test.each(['h264', 'h265'] as const)(
    'of %s shows an event from before its start on, as the camera sent it',
    async (codec) => {
      await using camera = await RtspCamera.start(shaded[codec])
      const client = shared
      const { id, record: kept } = await client.made({ source: rtsp(camera.url), record })
      expect(kept).toEqual({ frame: true, ...record })
      await isRunning(client, id)
      /** When the newest frame came that was looked at; 0 where something else was told. */
      const looked = async () => {
        const [{ frame }] = (await client.stream(id, 1, '?looks=true')) as [{ frame?: { time: string } }]
        return frame === undefined ? 0 : Date.parse(frame.time)
      }
      let first = 0
      for (; first === 0; first = await looked());
      // The ring has more than the clip is to show.
      await poll(looked).toBeGreaterThan(first + 1_200)
      answer(0.9)
      const [told] = await clips(client, id)
      const [started] = await client.changes(id)
      expect(told!.data).toMatchObject({ happening: started!.data.happening, question: 'lamp' })
      const clip = clipOf(told)!
      expect(clip).toMatchObject({ status: 'available', file_id: expect.stringMatching(/^file-/), reason: null })
      expect(clipOf(started)).toEqual(clip)
      const response = await client.ask('GET', `/${id}/events/${started!.data.seq}/clip`)
      expect([response.status, response.headers.get('content-type')]).toEqual([200, 'video/mp4'])
      const bytes = Buffer.from(await response.arrayBuffer())
      const read = await readClip(bytes)
      expect(read).toMatchObject({ codec, width: 320, height: 180, pictures: read.packets.length })
      expect(read.packets[0]).toEqual({ time: 0, isKey: true })
      const [from, at, to] = [clip.from, started!.data.started_at as string, clip.to].map((time) => Date.parse(time))
      // A second, but for what the clocks of the camera and a busy server differ by.
      expect(at! - from!).toBeGreaterThan(500)
      expect(to!).toBeGreaterThan(at!)
      // The camera's clock counts, unless it differs by more than a second or a tenth.
      expect(Math.abs(read.seconds - (to! - from!) / 1000)).toBeLessThan(1.5)
      expect(read.packets.filter(({ isKey }) => isKey).length).toBeGreaterThan(2)
      const part = await client.ask('GET', `/${id}/events/${told!.data.seq}/clip`, undefined, { range: 'bytes=4-7' })
      expect([part.status, await part.text()]).toEqual([206, 'ftyp'])
      expect((await client.ask('GET', `/${id}/events/${told!.data.seq}/frame`)).status).toBe(404)
    },
  )

  test('is one for all events that start at a frame, and goes with the watch', async () => {
    await using camera = await RtspCamera.start(video)
    const client = shared
    answer(0.9)
    const questions = ['one', 'other'].map((name) => ({ ...LAMP, name }))
    const { id } = await client.made({ source: rtsp(camera.url), record: { after_seconds: 0.2 }, questions })
    const told = await clips(client, id, 2)
    expect(told.map(({ data }) => data.question)).toEqual(['one', 'other'])
    expect(clipOf(told[0])).toEqual(clipOf(told[1]))
    await client.ask('DELETE', `/${id}`)
    expect((await server.get(`/v1/files/${clipOf(told[0])!.file_id}`)).status).toBe(404)
  })

  test('ends early where the watch pauses or its camera dies', async () => {
    await using camera = await RtspCamera.start(video)
    const client = shared
    answer(0.9)
    const long = { source: rtsp(camera.url), record: { before_seconds: 1, after_seconds: 30 } }
    const [paused, cut] = [await client.made(long), await client.made(long)]
    await pending(client, paused.id)
    await pending(client, cut.id)
    await client.ask('POST', `/${paused.id}/pause`)
    expect((await clips(client, paused.id)).map(clipOf)).toMatchObject([{ status: 'available' }])
    camera.cut()
    expect((await clips(client, cut.id)).map(clipOf)).toMatchObject([{ status: 'available' }])
  })

  test('is unavailable where the camera sends JPEG, its process dies, or there is no room', async () => {
    await using stream = await HttpCamera.start(pictures)
    await using camera = await RtspCamera.start(video)
    const client = shared
    answer(0.9)
    const jpeg = await client.made({ source: { type: 'mjpeg', url: stream.url('/stream') }, record })
    expect((await clips(client, jpeg.id)).map(clipOf)).toMatchObject([{ status: 'unavailable', reason: 'codec' }])
    const unlucky = await newClient()
    const others = cameraProcesses()
    const lost = await unlucky.made({ source: rtsp(camera.url), record: { after_seconds: 30 } })
    await pending(unlucky, lost.id)
    for (const pid of cameraProcesses()) if (!others.includes(pid)) process.kill(pid, 'SIGKILL')
    expect((await clips(unlucky, lost.id)).map(clipOf)).toMatchObject([
      { status: 'unavailable', reason: 'stopped', file_id: null },
    ])
    expect((await unlucky.changes(lost.id)).map(clipOf)).toMatchObject([{ reason: 'stopped' }, { reason: 'stopped' }])
    expect((await unlucky.ask('GET', `/${lost.id}/events/1/clip`)).status).toBe(404)
    const scopes = ['watch', 'admin', 'inference'] as const
    const poor = new WatchClient(server, (await newKey(database, { scopes, limits: { storedBytes: 1 } })).key)
    const full = await poor.made({ source: rtsp(camera.url), record })
    expect((await clips(poor, full.id)).map(clipOf)).toMatchObject([{ status: 'unavailable', reason: 'quota' }])
    expect((await poor.changes(full.id))[0]!.data.frame).toMatchObject({ file_error: 'quota' })
  })

  test('needs a camera', async () => {
    const client = shared
    const error = { param: 'record.after_seconds', message: expect.stringContaining('clips need a camera') }
    expect(await errorOf(await client.ask('POST', '', { ...WATCH, record: { after_seconds: 1 } }))).toMatchObject(error)
    const { id } = await client.made()
    expect(await errorOf(await client.ask('PATCH', `/${id}`, { record: { after_seconds: 1 } }))).toMatchObject(error)
    expect((await errorOf(await client.ask('PATCH', `/${id}`, { record: { before_seconds: 31 } }))).param).toBe(
      'record.before_seconds',
    )
  })
})

test('`lookout watch` prints the events of a camera until Ctrl-C, and deletes its watch', async () => {
  const login = { scheme: 'digest', username: 'a', password: 'b', nonceUses: 5 } as const
  await using camera = await HlsCamera.start(video, 'mpegts', { login })
  await using secure = await SecureCamera.start(camera)
  const { key } = await newKey(database, { scopes: ['watch', 'admin', 'inference'] })
  const folder = await mkdtemp(join(tmpdir(), 'lookout-camera-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  const questions = join(folder, 'questions.yaml')
  await writeFile(questions, 'lamp: {instructions: Is it on?, event: {for_seconds: 0}}')
  const run = (password: string) =>
    startLookout([
      'watch',
      secure.url.replace('//', `//a:${password}@`),
      questions,
      ...['--certificate', FINGERPRINT],
      '--clips',
      join(folder, 'clips'),
      '--server',
      server.url,
      '--key',
      key,
    ])
  const wrong = await outcomeOf(run('c'))
  expect([wrong.code, wrong.stderr]).toEqual([
    1,
    expect.stringContaining('The camera delivers no frames: unauthorized'),
  ])
  answer(0.9)
  const child = run('b')
  const ended = outcomeOf(child)
  let printed = ''
  child.stdout!.on('data', (piece) => {
    printed += piece
    if (printed.includes('event.clip')) child.kill('SIGINT')
  })
  const { stdout, code } = await ended
  expect([stdout, code]).toEqual([expect.stringMatching(/^event\.started {2}lamp {2}0\.900 {2}\d/), 130])
  expect(stdout).toMatch(/^event\.clip {2}lamp {2}file-\S+$/m)
  const [file] = /file-\S+/.exec(stdout)!
  expect(await readClip(await readFile(join(folder, 'clips', `${file}.mp4`)))).toMatchObject({ codec: 'h264' })
  expect(await jsonOf(await new WatchClient(server, key).ask('GET', ''))).toMatchObject({ data: [] })
})

test('of five cameras, a hostile one harms none', async () => {
  const client = shared
  await using good = await RtspCamera.start(video)
  await using endless = await RtspCamera.start(video, { isEndless: true })
  await using rubbish = await RtspCamera.start(video, { garbage: Buffer.alloc(50_000, 7) })
  const urls = Array.from({ length: 3 }, (_, i) => `${good.url}?${i}`)
  const watches = []
  for (const url of [...urls, endless.url, rubbish.url]) {
    watches.push(await client.made({ source: rtsp(url), fps: 1 }))
  }
  await isOffline(client, watches[3]!.id, 'unreachable')
  for (const { id } of watches.slice(0, 3)) {
    // However late looks are on a busy machine, frames come.
    const frames = async () => ((await client.find(id)).counts as { frames: number }).frames
    const before = await frames()
    await poll(frames).toBeGreaterThan(before)
  }
})
