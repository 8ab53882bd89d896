import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { type IncomingMessage, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import sharp from 'sharp'
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { Accounts } from '../src/accounts/accounts.ts'
import { readEvents } from '../src/client/event-stream.ts'
import { watch } from '../src/commands/watch.ts'
import type { ReadQuestion } from '../src/inference/contract/work.ts'
import { modelOverloaded } from '../src/lib/errors/errors.ts'
import { Database } from '../src/storage/database.ts'
import { and, eq, isNull } from '../src/storage/drizzle.ts'
import * as tables from '../src/storage/schema.ts'
import { changedCard, type TemporaryCard } from './support/changed-card.ts'
import { outcomeOf, startLookout } from './support/command-line.ts'
import { FakeEngine } from './support/fake-engine.ts'
import { ModelStore } from './support/model-store.ts'
import { errorOf, jsonOf, KEY, startTestServer, type TestServer } from './support/server.ts'
import {
  AT_ONCE,
  eventsOf,
  LAMP,
  newKey,
  WATCH,
  type Watch,
  WatchClient,
  type WatchEvent,
} from './support/watch-client.ts'

const MODEL = 'service-mk1.5'
const LAMPS = {
  name: 'lamps',
  type: 'x_count',
  instructions: 'How many lamps?',
  max: 3,
  event: { ...AT_ONCE, at_least: 2 },
}

/** The right half of a picture. */
const RIGHT = { top: 0, left: 0.5, bottom: 1, right: 1 }

let server: TestServer
let card: TemporaryCard
let database: Database
let bright: Buffer
let dark: Buffer
beforeAll(async () => {
  const solid = (background: string) => sharp({ create: { width: 96, height: 54, channels: 3, background } })
  bright = await solid('white').png().toBuffer()
  dark = await solid('black').jpeg().toBuffer()
  // Probabilities as the engine gives them.
  card = await changedCard(({ decision: _decision, ...card }) => card)
  server = await startTestServer({
    // A database of its own: servers of other tests are not to run its watches.
    environment: { DATABASE_URL: '', LOOKOUT_WATCHES: '8', LOOKOUT_MODEL_CARD: card.path },
    watches: { beatMs: 100, silenceMs: 5_000, lagMs: 500 },
  })
  database = await Database.open({ url: null, directory: `${server.directory}/database`, cacheDirectory: '' })
})
afterAll(async () => {
  await database?.close()
  await server?.close()
  await card?.remove()
})
beforeEach(() => answer({ 'Yes.': 0.1, 'No.': 0.9 }))
/** Gives replies these probabilities. */
function answer(odds: Readonly<Record<string, number>>) {
  server.engine.script = {
    read: ({ replies }: ReadQuestion) => replies.map((reply) => Math.log(odds[reply] ?? 1e-9)),
    texts: ['<point_box mention="lamp"> (100,200) (300,400) </point_box>'],
  }
}

interface Busy {
  readonly counts: { readonly dropped: { readonly busy: number } }
}

interface Counted extends Record<string, unknown> {
  readonly counts: object
}

async function newClient(): Promise<WatchClient> {
  return new WatchClient(server, (await newKey(database)).key)
}

/** A picture of 96 x 54 whose halves have these greys. */
function halves(left: number, right: number): Promise<Buffer> {
  const data = Uint8Array.from({ length: 96 * 54 }, (_, i) => (i % 96 < 48 ? left : right))
  return sharp(data, { raw: { width: 96, height: 54, channels: 1 } })
    .png()
    .toBuffer()
}

/** The greys at the left and at the right edge of the picture that was looked at last; one where they are the same. */
function greys(): number[] {
  const { image } = server.engine.readWorks.at(-1)!.prefix.find((part) => part.type === 'image')!
  return [...new Set([image.data[0]!, image.data.at(-1)!])]
}

const briefly = ({ type, data }: WatchEvent) => `${type} ${data.question ?? data.reason}`

describe('events', () => {
  test('begin and end, are told on the stream, and show their frame', async () => {
    const client = await newClient()
    const evidence = { type: 'x_box', instructions: 'lamp' }
    const { id } = await client.made({ name: 'dock', questions: [{ ...LAMP, evidence }, LAMPS] })
    const told = client.stream(id, 2, '?after=0')
    await client.look(id, bright)
    answer({ 'Yes.': 0.9, 'No.': 0.1 })
    const time = '2027-01-31T12:00:00.500Z'
    const looked = await client.look(id, dark, { 'x-frame-time': time })
    expect(looked).toMatchObject({ answers: [{ probability: expect.closeTo(0.9, 6) }, {}] })
    answer({ 'Yes.': 0.1, 'No.': 0.9 })
    await client.look(id, bright)

    const changes = await client.changes(id)
    expect(changes.map(briefly)).toEqual(['watch.event.started lamp', 'watch.event.ended lamp'])
    const [started, ended] = changes
    expect(started!.data).toMatchObject({
      ...{ watch: id, name: 'dock', probability: expect.closeTo(0.9, 6), ended_at: null },
      answer: { type: 'predicate', name: 'lamp' },
      frame: { camera_time: time, width: 96, height: 54, file_id: expect.stringMatching(/^file-/) },
      box: { left: 0.1, top: 0.2, right: 0.3, bottom: 0.4 },
    })
    expect(ended!.data).toMatchObject({
      ...{ happening: started!.data.happening, reason: 'cleared', peak_probability: expect.closeTo(0.9, 6) },
      frame: { file_id: null },
    })
    const events = await client.events(id)
    expect(events.map(({ data }) => data.seq)).toEqual(events.map((_, i) => i + 1))
    expect(await told).toEqual(events.slice(0, 2))
    expect(await client.stream(id, 1, '', { 'last-event-id': String(started!.data.seq) })).toEqual([
      events[started!.data.seq],
    ])
    const frame = await client.ask('GET', `/${id}/frame`)
    expect([frame.headers.get('content-type'), Buffer.from(await frame.arrayBuffer())]).toEqual(['image/png', bright])
  })

  test('wait for as long as the rule says, and for values that are counted', async () => {
    const client = await newClient()
    const rule = { for_seconds: 0.2, clear_seconds: 3_600 }
    const { id } = await client.made({ questions: [{ ...LAMP, event: rule }, LAMPS] })
    answer({ 'Yes.': 0.9, 'No.': 0.1, 0: 0.1, 1: 0.1, 2: 0.5, 3: 0.3 })
    await client.look(id, bright)
    expect((await client.changes(id)).map(briefly)).toEqual(['watch.event.started lamps'])
    await expect
      .poll(async () => {
        await client.look(id, bright)
        return (await client.changes(id)).map(briefly)
      })
      .toContain('watch.event.started lamp')
    // The model would rather say something else: nothing changes.
    answer({ 'Yes.': 0.01, 'No.': 0.2, 0: 0.01 })
    await client.look(id, bright)
    expect(await client.changes(id)).toHaveLength(2)
  })

  test('frames in which nothing moves are not looked at, and their time counts', async () => {
    const client = await newClient()
    answer({ 'Yes.': 0.9, 'No.': 0.1 })
    const event = { for_seconds: 0.2, clear_seconds: 0 }
    const { id } = await client.made({ motion: {}, questions: [{ ...LAMP, event }] })
    await client.look(id, dark)
    const looks = server.engine.readWorks.length
    await expect
      .poll(async () => {
        await client.ask('POST', `/${id}/frames?wait=true`, dark)
        return (await client.changes(id)).map(briefly)
      })
      .toEqual(['watch.event.started lamp'])
    expect(server.engine.readWorks).toHaveLength(looks)
    expect((await jsonOf<Counted>(await client.ask('GET', `/${id}`))).counts).toMatchObject({ looks: 1 })
    await client.look(id, bright)
    expect(server.engine.readWorks).toHaveLength(looks + 1)
  })

  test('while a look is made, and before the next is due, frames are dropped', async () => {
    const client = await newClient()
    const { id } = await client.made({ fps: 0.05 })
    const looked = Promise.withResolvers<void>()
    server.engine.script = { read: ({ replies }) => looked.promise.then(() => replies.map(() => -1)) }
    expect((await client.ask('POST', `/${id}/frames`, bright)).status).toBe(202)
    expect(await jsonOf(await client.ask('POST', `/${id}/frames`, bright))).toEqual({ frame: 2, dropped: 'busy' })
    looked.resolve()
    await expect
      .poll(async () => (await jsonOf<Counted>(await client.ask('GET', `/${id}`))).counts, { interval: 20 })
      .toMatchObject({ frames: 2, looks: 1, dropped: { busy: 1 } })
    expect(await jsonOf(await client.ask('POST', `/${id}/frames`, bright))).toEqual({ frame: 3, dropped: 'rate' })
  })

  test('the rate of looks falls while there are no more', async () => {
    const client = await newClient()
    answer({ 'Yes.': 0.9, 'No.': 0.1 })
    const { id } = await client.made()
    const rate = async () => (await client.find(id)).looked_fps as number
    for (let looks = 0; looks < 2; looks++) await client.look(id, bright)
    const atFirst = await rate()
    expect(atFirst).toBeGreaterThan(0)
    await expect.poll(rate, { interval: 20 }).toBeLessThan(atFirst)
  })

  test('a look that cannot begin in time is dropped and counted, and the next one is made', async () => {
    const client = await newClient()
    const evidence = { type: 'x_box', instructions: 'lamp' }
    const { id } = await client.made({ questions: [{ ...LAMP, evidence }] })
    const begins = Promise.withResolvers<void>()
    server.engine.script = { begins: begins.promise }
    await expect
      .poll(async () => jsonOf(await client.ask('POST', `/${id}/frames?wait=true`, bright)), { interval: 20 })
      .toMatchObject({ dropped: 'late' })
    expect(await jsonOf(await client.ask('GET', `/${id}`))).toMatchObject({
      ...{ status: 'waiting', reason: expect.stringMatching(/busy/) },
      counts: { looks: 0, failed: 0, dropped: { late: 1 } },
    })
    answer({ 'Yes.': 0.9, 'No.': 0.1 })
    await client.look(id, bright)
    expect(await jsonOf(await client.ask('GET', `/${id}`))).toMatchObject({ status: 'running' })
    // What has started is looked for as long as it takes.
    expect((await client.changes(id))[0]!.data).toMatchObject({ box: { left: 0.1 } })
    const ofLook = { priority: 'live', isTransient: true, onBegun: expect.any(Function) }
    expect(server.engine.readWorks.at(-1)).toMatchObject(ofLook)
    const { priority = 'interactive', isTransient, onBegun } = server.engine.works.at(-1)!
    expect({ priority, isTransient, onBegun }).toEqual({ priority: 'interactive', isTransient: true })
    begins.resolve()
  })

  test('a look that is made while the watch is paused ends with 503, and further frames with 409', async () => {
    const client = await newClient()
    const { id } = await client.made({ fps: 0.05 })
    const begins = Promise.withResolvers<void>()
    server.engine.script = { begins: begins.promise }
    const reads = server.engine.readWorks.length
    const pushed = client.ask('POST', `/${id}/frames?wait=true`, bright)
    await expect.poll(() => server.engine.readWorks.length).toBeGreaterThan(reads)
    expect((await client.ask('POST', `/${id}/pause`)).status).toBe(200)
    const stopped = await pushed
    expect([stopped.status, stopped.headers.get('retry-after')]).toEqual([503, '1'])
    expect((await client.ask('POST', `/${id}/frames?wait=true`, bright)).status).toBe(409)
    begins.resolve()
  })

  test('a watch reports silence and pauses, and its events continue across them', async () => {
    const client = await newClient()
    answer({ 'Yes.': 0.9, 'No.': 0.1 })
    const { id } = await client.made()
    await client.look(id, bright)
    await expect.poll(async () => (await client.events(id)).at(-1)!.type, { interval: 200 }).toBe('watch.offline')
    expect(await jsonOf(await client.ask('GET', `/${id}`))).toMatchObject({ status: 'offline' })
    await client.look(id, bright)
    expect(await jsonOf(await client.ask('POST', `/${id}/pause`))).toMatchObject({ status: 'paused' })
    expect((await client.ask('POST', `/${id}/frames`, bright)).status).toBe(409)
    expect(await jsonOf(await client.ask('POST', `/${id}/resume`))).toMatchObject({ status: 'starting' })
    answer({ 'Yes.': 0.1, 'No.': 0.9 })
    await client.look(id, bright)
    const told = (await client.events(id)).map(briefly)
    expect(told).toContain('watch.online undefined')
    expect(told).toContain('watch.gap stopped')
    expect((await client.changes(id)).at(-1)!.data).toMatchObject({ reason: 'gap', gaps: [{}] })
  })

  test('a watch that stops while it is offline tells the whole silence, as stored now or before it kept since when', async () => {
    const client = await newClient()
    const memories = [
      (memory: object) => memory,
      ({ offlineSince: _, ...memory }: Record<string, unknown>) => ({ ...memory, isOffline: true }),
    ]
    const silences = memories.map(async (stored) => {
      const { id } = await client.made()
      await client.look(id, bright)
      const at = async (wanted: string) => (await client.events(id)).find(({ type }) => type === wanted)?.data.from
      await expect.poll(() => at('watch.offline'), { interval: 200 }).toBeDefined()
      await client.ask('POST', `/${id}/pause`)
      const row = and(eq(tables.watches.id, id), isNull(tables.watches.lease))
      const read = () => database.use((queries) => queries.select().from(tables.watches).where(row))
      await expect.poll(async () => (await read()).length).toBe(1)
      const memory = JSON.stringify(stored(JSON.parse((await read())[0]!.memory!)))
      await database.use((queries) => queries.update(tables.watches).set({ memory }).where(row))
      await client.ask('POST', `/${id}/resume`)
      await client.look(id, bright)
      expect(await at('watch.online')).toBe(await at('watch.offline'))
    })
    await Promise.all(silences)
  })

  test('a watch tells once that its looks fail, and of the gap when they succeed again', async () => {
    const client = await newClient()
    const poor = new WatchClient(server, (await newKey(database, { limits: { monthlyCredits: 0 } })).key)
    const [{ id }, { id: other }] = [await client.made(), await poor.made()]
    await client.look(id, bright)
    server.engine.script = { readRefusal: modelOverloaded('No room', 1) }
    const failures = async (one: WatchClient, of: string) => {
      await Promise.all([client.ask('POST', `/${id}/frames`, bright), poor.ask('POST', `/${other}/frames`, bright)])
      return (await one.events(of)).filter(({ type }) => type === 'watch.failed').map(({ data }) => data)
    }
    const failed = { reason: 'error', message: 'No room', from: expect.any(String) }
    await expect.poll(() => failures(client, id)).toEqual([expect.objectContaining(failed)])
    expect(await client.find(id)).toMatchObject({ status: 'waiting', reason: 'No room' })
    const spent = { reason: 'budget', message: expect.stringMatching(/budget/) }
    await expect.poll(() => failures(poor, other)).toEqual([expect.objectContaining(spent)])
    answer({ 'Yes.': 0.1, 'No.': 0.9 })
    await client.look(id, bright)
    expect((await client.events(id)).map(briefly)).toContain('watch.gap waiting')
    expect(await failures(client, id)).toHaveLength(1)
  })

  test('a watch tells once that its looks take too long', async () => {
    const client = await newClient()
    const { id } = await client.made()
    const looked = Promise.withResolvers<void>()
    server.engine.script = { read: ({ replies }) => looked.promise.then(() => replies.map(() => -1)) }
    await client.ask('POST', `/${id}/frames`, bright)
    const busy = async () => {
      await client.ask('POST', `/${id}/frames`, bright)
      return ((await client.find(id)) as unknown as Busy).counts.dropped.busy
    }
    // For longer than is counted: it takes 20 ms and more between two of them.
    await expect.poll(busy, { interval: 20 }).toBeGreaterThan(30)
    looked.resolve()
    const lagging = async () => (await client.events(id)).filter(({ type }) => type === 'watch.lagging')
    await expect.poll(lagging, { interval: 20 }).toHaveLength(1)
    expect((await lagging())[0]!.data).toMatchObject({ from: expect.any(String), looked_fps: expect.any(Number) })
    await client.look(id, bright)
    expect(await lagging()).toHaveLength(1)
  })

  test('a region is all that is looked at, and boxes in it are told in the whole frame', async () => {
    const client = await newClient()
    answer({ 'Yes.': 0.9, 'No.': 0.1 })
    const evidence = { type: 'x_box', instructions: 'lamp' }
    const watch = await client.made({ region: RIGHT, motion: {}, questions: [{ ...LAMP, evidence }] })
    expect(watch.region).toEqual(RIGHT)
    const [half, other, full] = await Promise.all([halves(0, 255), halves(128, 255), halves(0, 128)])
    const push = (picture: Buffer) => client.ask('POST', `/${watch.id}/frames?wait=true`, picture)
    await client.look(watch.id, half)
    expect(greys()).toEqual([255])
    expect((await client.changes(watch.id))[0]!.data).toMatchObject({
      frame: { width: 96, height: 54 },
      box: { left: 0.55, top: 0.2, right: 0.65, bottom: 0.4 },
    })
    // What moves outside is no reason to look.
    await expect.poll(async () => jsonOf(await push(other)), { interval: 20 }).toMatchObject({ dropped: 'still' })
    await client.look(watch.id, full)
    expect(greys()).toEqual([128])

    const thin = { ...RIGHT, right: 0.6 }
    expect(await jsonOf(await client.ask('PATCH', `/${watch.id}`, { region: thin }))).toMatchObject({ region: thin })
    const tooSmall = 'The region is 10 x 54 pixels of a frame of 96 x 54; each side must be at least 16'
    await expect
      .poll(async () => errorOf(await push(half)), { interval: 20 })
      .toMatchObject({ param: 'region', message: tooSmall })
    expect(await client.find(watch.id)).toMatchObject({ status: 'waiting', reason: tooSmall })
    expect(await jsonOf(await client.ask('PATCH', `/${watch.id}`, { region: null }))).toMatchObject({ region: null })
    await client.look(watch.id, half)
    expect(greys()).toEqual([0, 255])
  })

  test('end when their question changes, and looks are sent where they are asked for', async () => {
    const client = await newClient()
    answer({ 'Yes.': 0.9, 'No.': 0.1 })
    const { id } = await client.made()
    const stream = await client.ask('GET', `/${id}/stream?looks=true`)
    await client.look(id, bright)
    expect((await eventsOf(stream, 2)).find(({ object }) => object === 'look')).toMatchObject({
      ...{ watch: id, still: false, answers: [{ name: 'lamp', probability: expect.closeTo(0.9, 6) }] },
    })
    // With other thresholds, what goes on goes on.
    const event = { ...AT_ONCE, above: 0.8, below: 0.2 }
    await client.ask('PATCH', `/${id}`, { questions: [{ ...LAMP, event }] })
    await client.look(id, dark)
    expect((await client.changes(id)).map(briefly)).toEqual(['watch.event.started lamp'])
    const questions = [{ ...LAMP, event, instructions: 'Is it on?' }]
    expect(await jsonOf(await client.ask('PATCH', `/${id}`, { questions }))).toMatchObject({ fps: 10 })
    await expect
      .poll(async () => (await client.events(id)).map(({ data }) => data.reason), { interval: 20 })
      .toContain('changed')
  })
})

describe('a reader of a stream that stops', () => {
  /** So many that the buffers of a socket are soon full. */
  const LAMPS = Array.from({ length: 64 }, (_, i) => ({ ...LAMP, name: `lamp ${i} ${'x'.repeat(240)}` }))
  const MOST_BYTES = 6 * 2 ** 20

  async function allEvents(client: WatchClient, id: string): Promise<WatchEvent[]> {
    const all: WatchEvent[] = []
    for (;;) {
      const page = await client.ask('GET', `/${id}/events?limit=1000&after=${all.length}`)
      const { data, has_more } = await jsonOf<{ data: WatchEvent[]; has_more: boolean }>(page)
      all.push(...data)
      if (!has_more) return all
    }
  }

  test('holds up no others, misses looks, and gets every event', { timeout: 300_000 }, async () => {
    const { key } = await newKey(database)
    const client = new WatchClient(server, key)
    const { id } = await client.made({ questions: LAMPS, record: { frame: false } })
    const headers = { authorization: `Bearer ${key}` }
    const asked = request(`${server.url}/v1/watches/${id}/stream?looks=true&after=0`, { headers })
    onTestFinished(() => void asked.destroy())
    const [stopped] = (await once(asked.end(), 'response')) as [IncomingMessage]
    const reads = async (stream: AsyncIterable<Uint8Array>, into: string[], count: number) => {
      for await (const event of readEvents(stream)) {
        into.push(event)
        if (into.filter(isEvent).length === count) break
      }
    }
    const isEvent = (event: string) => event.startsWith('{"id"')
    const looksIn = (events: readonly string[]) => events.filter((event) => !isEvent(event))
    const sizeOf = (events: readonly string[]) => events.reduce((sum, { length }) => sum + length, 0)
    const quick: string[] = []
    const other = await client.ask('GET', `/${id}/stream?looks=true&after=0`)
    const reading = reads(other.body!, quick, Number.POSITIVE_INFINITY)
    for (let looks = 1; sizeOf(quick) < MOST_BYTES; looks++) {
      answer(looks % 2 === 1 ? { 'Yes.': 0.9, 'No.': 0.1 } : { 'Yes.': 0.1, 'No.': 0.9 })
      await client.look(id, bright)
      await expect.poll(() => looksIn(quick).length, { interval: 5 }).toBe(looks)
    }
    const told = await allEvents(client, id)
    await expect.poll(() => quick.filter(isEvent).length, { interval: 5 }).toBe(told.length)

    const late: string[] = []
    // One that has stopped for long is cut off.
    await reads(stopped, late, told.length).catch(() => {})
    expect(looksIn(late).length).toBeLessThan(looksIn(quick).length)
    expect(sizeOf(late)).toBeLessThan(MOST_BYTES)
    const got = late.filter(isEvent).map((event) => JSON.parse(event) as WatchEvent)
    const rest = told.length - got.length
    const again = { 'last-event-id': String(got.at(-1)?.data.seq ?? 0) }
    const resumed = rest === 0 ? [] : await client.stream(id, rest, '', again)
    expect([...got, ...resumed]).toEqual(told)
    await client.ask('DELETE', `/${id}`)
    await reading
  })
})

describe('watches', () => {
  test('belong to one organisation, which may have half of the places', async () => {
    const [client, other] = [await newClient(), await newClient()]
    const { id } = await client.made()
    for (const [method, path] of [
      ...(['', '/events', '/stream', '/frame'] as const).map((path) => ['GET', path] as const),
      ...(['/pause', '/resume', '/frames'] as const).map((path) => ['POST', path] as const),
      ['DELETE', ''] as const,
    ]) {
      const response = await other.ask(method, `/${id}${path}`)
      expect([path, response.status, (await errorOf(response)).code]).toEqual([path, 404, 'watch_not_found'])
    }
    for (let count = 1; count < 4; count++) await client.made()
    const response = await client.ask('POST', '', WATCH)
    expect([response.status, (await errorOf(response)).code]).toEqual([429, 'watch_limit_exceeded'])
    expect(await jsonOf(await client.ask('GET', '?limit=2'))).toMatchObject({ has_more: true, data: [{}, {}] })
    expect(await jsonOf(await other.ask('GET', ''))).toMatchObject({ data: [] })
    expect(await jsonOf(await client.ask('DELETE', `/${id}`))).toEqual({ id, object: 'watch', deleted: true })
    expect((await client.ask('GET', `/${id}`)).status).toBe(404)
  })

  test('frames of events are files that lists leave out, and go with the watch', async () => {
    const { key, organisation } = await newKey(database)
    const client = new WatchClient(server, key)
    answer({ 'Yes.': 0.9, 'No.': 0.1 })
    const { id } = await client.made()
    await client.look(id, bright)
    const files = async (query: string) => {
      const response = await server.get(`/v1/files${query}`, { authorization: `Bearer ${key}` })
      return (await jsonOf<{ data: { id: string }[] }>(response)).data
    }
    const kept = await files('?purpose=watch')
    expect(kept).toEqual([expect.objectContaining({ purpose: 'watch', expires_at: expect.any(Number) })])
    expect(await files('')).toEqual([])
    // The watch's own paths show it to keys without the scope `files`.
    answer({ 'Yes.': 0.1, 'No.': 0.9 })
    await client.look(id, bright)
    const [started, ended] = (await client.changes(id)) as [WatchEvent, WatchEvent]
    const viewer = new WatchClient(
      server,
      (await new Accounts(database).createKey({ organisation, scopes: ['watch'] })).key,
    )
    for (const path of ['/frame', `/events/${started.data.seq}/frame`]) {
      const shown = await viewer.ask('GET', `/${id}${path}`)
      expect([shown.status, shown.headers.get('content-type')]).toEqual([200, 'image/png'])
      expect(Buffer.from(await shown.arrayBuffer()).equals(bright)).toBe(true)
    }
    for (const seq of [ended.data.seq, 999, 'x', '1e99']) {
      expect((await viewer.ask('GET', `/${id}/events/${seq}/frame`)).status).toBe(404)
    }
    const stranger = await (await newClient()).ask('GET', `/${id}/events/${started.data.seq}/frame`)
    expect((await errorOf(stranger)).code).toBe('watch_not_found')
    await client.ask('DELETE', `/${id}`)
    expect([organisation, await files('?purpose=watch')]).toEqual([organisation, []])
  })

  test.each([
    [{ source: { type: 'webrtc', url: 'http://camera/whep' } }, 'source.type', /expected push.*MediaMTX/],
    [{ questions: [LAMP, LAMPS, { ...LAMP, name: 'b', event: { below: 0.7 } }] }, 'questions[2].event.below', /0.7/],
    [{ questions: [LAMP, LAMP] }, 'questions[1].name', /another/],
    [{ questions: [{ ...LAMPS, event: { at_least: 4 } }] }, 'questions[0].event.at_least', /at most 3/],
    [{ questions: [{ type: 'x_box', name: 'a', instructions: 'lamp' }] }, 'questions[0].type', /expected/],
    [{ questions: [{ ...LAMP, name: undefined }] }, 'questions[0].name', /required/],
    [{ fps: 11 }, 'fps', /at most 10/],
    [{ zone: null }, 'zone', /no such field/],
    [{ region: { ...RIGHT, top: 1.5 } }, 'region.top', /at most 1/],
    [{ region: { ...RIGHT, bottom: 0 } }, 'region.bottom', /more than 'top', which is 0/],
    [{ region: { ...RIGHT, right: 0.5 } }, 'region.right', /more than 'left', which is 0.5/],
    [{ region: { top: 0, left: 0 } }, 'region.bottom', /required/],
  ])('%j is refused, by the name of the parameter', async (changes, param, message) => {
    const client = new WatchClient(server, server.service.apiKey!)
    const error = await errorOf(await client.ask('POST', '', { ...WATCH, ...changes }))
    expect(error).toMatchObject({ param, message: expect.stringMatching(message) })
  })

  test('null stands for a field that is left out', async () => {
    const client = await newClient()
    const plain = { model: 'service-mk1.5', source: { type: 'push' }, questions: [{ ...LAMP, event: {} }] }
    const unset = {
      ...{ name: null, fps: null, decode: null, record: null, keep_days: null, region: null, metadata: null },
      webhook: null,
      motion: { share: null, at_least_every_seconds: null },
    }
    const rule = { above: null, below: null, for_seconds: null, clear_seconds: null, cooldown_seconds: null }
    const questions = [{ ...LAMP, evidence: null, event: rule }]
    const settingsOf = ({ model, fps, decode, motion, record, keep_days, questions }: Watch) => {
      return { model, fps, decode, motion, record, keep_days, questions }
    }
    const made = await client.made({ ...plain, motion: undefined, fps: undefined })
    expect(settingsOf(await client.made({ ...plain, ...unset, questions }))).toEqual(settingsOf(made))
    const record = { frame: null, before_seconds: null, after_seconds: null }
    expect(settingsOf(await client.made({ ...plain, ...unset, record }))).toEqual(settingsOf(made))
    const changes = { model: null, fps: null, decode: null, questions: null, record: null, keep_days: null }
    const { id } = await client.made({ ...plain, fps: 3, name: 'a', keep_days: 30, record: { frame: false } })
    const before = await client.find(id)
    const changed = await client.ask('PATCH', `/${id}`, changes)
    expect([changed.status, settingsOf(await jsonOf(changed))]).toEqual([200, settingsOf(before)])
    const url = 'https://example.org/hook'
    const hooked = await client.ask('PATCH', `/${id}`, { webhook: { url, types: null, secret: null } })
    expect(await jsonOf(hooked)).toMatchObject({
      webhook: { url, types: expect.arrayContaining(['watch.event.started']) },
    })
  })

  test('a frame that is not a picture is refused, and so is an invalid time', async () => {
    const client = await newClient()
    const { id } = await client.made()
    const noPicture = await client.ask('POST', `/${id}/frames`, Buffer.from('not a picture'))
    expect([noPicture.status, (await errorOf(noPicture)).param]).toEqual([400, 'frame'])
    const noTime = await client.ask('POST', `/${id}/frames`, bright, { 'x-frame-time': 'noon' })
    const { message, param } = await errorOf(noTime)
    expect([noTime.status, param, message]).toEqual([
      ...[400, 'x-frame-time'],
      "Invalid 'x-frame-time': expected a time such as 2027-01-31T12:00:00.5Z",
    ])
    const noNumber = await client.ask('GET', `/${id}/stream`, undefined, { 'last-event-id': 'x' })
    expect([noNumber.status, (await errorOf(noNumber)).param]).toEqual([400, 'last-event-id'])
  })

  test('need the scope `watch`, and a server that runs them', async () => {
    const { key } = await newKey(database, { scopes: ['inference'] })
    const response = await new WatchClient(server, key).ask('POST', '', WATCH)
    expect([response.status, (await errorOf(response)).code]).toEqual([403, 'insufficient_scope'])
    const without = await startTestServer()
    try {
      expect((await without.get('/v1/watches')).status).toBe(503)
    } finally {
      await without.close()
    }
  })

  test('get their frames on one server; another takes over when none come there', async () => {
    const second = await startTestServer({
      environment: {
        ...{ DATABASE_URL: '', LOOKOUT_DATA_DIR: server.directory },
        ...{ LOOKOUT_WATCHES: '8', LOOKOUT_MODEL_CARD: card.path },
      },
      watches: { beatMs: 100, silenceMs: 5_000 },
    })
    onTestFinished(() => second.close())
    second.engine.script = { read: ({ replies }) => replies.map((reply) => Math.log(reply === 'Yes.' ? 0.9 : 0.05)) }
    const { key } = await newKey(database)
    const [here, there] = [new WatchClient(server, key), new WatchClient(second, key)]
    const { id } = await here.made()
    await expect.poll(async () => (await here.find(id)).counts, { interval: 20 }).not.toBeNull()
    const early = await there.ask('GET', `/${id}/stream?looks=true`)
    await here.look(id, bright)
    let refused: Response
    let looks: Response
    const push = async () => {
      await here.ask('POST', `/${id}/frames`, bright)
      refused = await there.ask('POST', `/${id}/frames`, bright)
      looks = await there.ask('GET', `/${id}/stream?looks=true`)
      if (looks.status === 200) await looks.body!.cancel()
      return [refused.status, looks.status]
    }
    await expect.poll(push, { interval: 20 }).toEqual([503, 503])
    expect((await errorOf(looks!)).code).toBe('watch_elsewhere')
    expect(refused!.headers.get('retry-after')).toBe('2')
    expect(await errorOf(refused!)).toMatchObject({
      code: 'watch_elsewhere',
      message: expect.stringMatching(/another/i),
    })
    expect(await there.find(id)).toMatchObject({
      status: 'running',
      reason: expect.stringMatching(/another server/i),
      counts: null,
    })
    const frame = await there.ask('GET', `/${id}/frame`)
    expect([frame.status, (await errorOf(frame)).code]).toEqual([503, 'watch_elsewhere'])
    // One that was there before the frames ends, too.
    expect(early.status).toBe(200)
    await early.text()
    const looked = await here.ask('GET', `/${id}/stream?looks=true`)
    // A stream on either server has all events.
    const streamed = here.stream(id, 1, '?after=0')
    await there.look(id, bright)
    await expect.poll(async () => (await here.find(id)).counts, { interval: 20 }).toBeNull()
    // One for looks ends with them.
    await looked.text()
    await expect.poll(async () => (await here.ask('POST', `/${id}/frames`, bright)).status).toBe(503)
    const told = await there.events(id)
    expect(told.map(({ data }) => data.seq)).toEqual(told.map((_, i) => i + 1))
    expect(told.map(briefly)).toContain('watch.gap stopped')
    expect(await streamed).toEqual(told.slice(0, 1))
  })

  test('get a turn on a model that is not loaded, beside a long chat of another one', async () => {
    const data = await mkdtemp(join(tmpdir(), 'lookout-turns-'))
    onTestFinished(() => rm(data, { recursive: true }))
    await new ModelStore(data).put('second')
    const read = ({ replies }: ReadQuestion) => replies.map(() => Math.log(1 / replies.length))
    const first = new FakeEngine()
    const crowded = await startTestServer({
      // One model fits.
      environment: { DATABASE_URL: '', LOOKOUT_DATA_DIR: data, LOOKOUT_WATCHES: '8', LOOKOUT_MODEL_MEMORY: '0.6' },
      startEngine: async (card) => {
        if (card.serves[0]!.id === MODEL) return first
        return Object.assign(new FakeEngine(), { script: { read } })
      },
      // Silence is not looked for.
      watches: { beatMs: 600_000, silenceMs: 500 },
    })
    onTestFinished(() => crowded.close())
    first.script = { begins: new Promise(() => {}), texts: Array<string>(10_000).fill('so '), delayMs: 50 }
    const client = new WatchClient(crowded, KEY)
    const [{ id }, { id: busy }] = [await client.made({ model: 'second' }), await client.made()]
    const body = { model: MODEL, messages: [{ role: 'user', content: 'Hi' }], stream: true }
    const chat = await crowded.post('/v1/chat/completions', body)
    const look = client.ask('POST', `/${id}/frames?wait=true`, bright)
    await expect.poll(async () => (await client.find(id)).counts).toMatchObject({ frames: 1 })
    // A look on a loaded model is late by now.
    expect(await jsonOf(await client.ask('POST', `/${busy}/frames?wait=true`, bright))).toMatchObject({
      dropped: 'late',
    })
    expect(await jsonOf(await client.ask('POST', `/${id}/frames`, bright))).toMatchObject({ dropped: 'busy' })
    expect(await client.find(id)).toMatchObject({ status: 'waiting', reason: expect.stringMatching(/being loaded/) })
    await chat.body!.cancel()
    expect(await jsonOf(await look)).toMatchObject({ frame: 1, answers: [{ name: 'lamp' }] })
    await client.look(id, bright)
    expect((await client.events(id)).map(briefly)).toContain('watch.gap waiting')
  })

  test('`lookout watch` pushes the pictures of a folder, prints events, and deletes its watch', async () => {
    answer({ 'Yes.': 0.9, 'No.': 0.1 })
    const { key } = await newKey(database)
    const folder = await mkdtemp(join(tmpdir(), 'lookout-frames-'))
    onTestFinished(() => rm(folder, { recursive: true }))
    await writeFile(join(folder, '1.jpg'), dark)
    await writeFile(join(folder, '2.png'), bright)
    const file = join(folder, 'questions.yaml')
    const connection = ['--server', server.url, '--key', key, '--fps', '10', '--folder', folder]
    const run = async (questions: string, ...options: string[]) => {
      await writeFile(file, questions)
      return outcomeOf(startLookout(['watch', ...connection, ...options, file]))
    }
    const question = 'lamp: {instructions: Is it on?, event: {for_seconds: 0}}'
    await writeFile(join(folder, '3.jpg'), dark)
    const looks = server.engine.readWorks.length
    // The first look takes longer than the time between three.
    server.engine.script = { ...server.engine.script, begins: delay(500) }
    const { stdout, stderr, code } = await run(question, '--region', '0,0.5,1,1')
    expect([code, stderr]).toEqual([0, expect.stringMatching(/^3 pictures, \d events?$/m)])
    expect(stdout).toContain(`event.started  lamp  0.900  ${join(folder, '1.jpg')}\n`)
    expect(await jsonOf(await new WatchClient(server, key).ask('GET', ''))).toMatchObject({ data: [] })
    expect(server.engine.readWorks.length).toBe(looks + 3)
    const { image } = server.engine.readWorks.at(-1)!.prefix.find((part) => part.type === 'image')!
    expect(image.width / image.height).toBeLessThan(1)
    await writeFile(join(folder, '0.jpg'), dark.subarray(0, 100))
    await writeFile(join(folder, '1.png'), bright.subarray(0, bright.length - 30))
    const damaged = await run(question)
    expect([damaged.code, damaged.stderr]).toEqual([
      1,
      expect.stringMatching(/0\.jpg .*\n.*1\.png.*\n.*\n.*2 of 5 pictures could not be/),
    ])
    const wrong = await run('lamp: {instructions: Is it on?, event: {above: 0.3}}')
    expect([wrong.code, wrong.stderr]).toEqual([
      1,
      expect.stringMatching(/questions\.yaml:1:.*'questions\[0\]\.event\.below'/),
    ])
    await expect(watch.run([...connection, '--region', '0,0.5,1', file])).rejects.toThrow('--region: expected TOP,LEFT')
  })

  test('looks cost what decisions cost, in one row for each minute, and late ones nothing', async () => {
    const { key, organisation } = await newKey(database)
    const client = new WatchClient(server, key)
    const { id } = await client.made()
    const begins = Promise.withResolvers<void>()
    server.engine.script = { begins: begins.promise }
    await expect
      .poll(async () => jsonOf(await client.ask('POST', `/${id}/frames?wait=true`, bright)), { interval: 20 })
      .toMatchObject({ dropped: 'late' })
    begins.resolve()
    let longest = 0
    for (let looks = 0; looks < 3; looks++) {
      server.engine.script = { begins: delay(200) }
      const from = performance.now()
      await client.look(id, bright)
      longest = Math.max(longest, Math.ceil(performance.now() - from))
    }
    await client.ask('DELETE', `/${id}`)
    // What was not written yet is written when the server stops.
    await server.service.close()
    const rows = await database.use((queries) =>
      queries.select().from(tables.usage).where(eq(tables.usage.organisationId, organisation)),
    )
    // A minute of the server may have ended between the looks.
    expect([1, 2]).toContain(rows.length)
    for (const row of rows) {
      expect(row).toMatchObject({ endpoint: 'watches', model: MODEL, status: 200 })
      // The time of a look, not of all looks together.
      expect(row.latencyMs).toBeLessThanOrEqual(longest)
    }
    expect(rows.reduce((sum, { promptTokens }) => sum + promptTokens, 0)).toBeGreaterThan(3 * 64)
  })
})
