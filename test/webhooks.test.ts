import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import OpenAI from 'openai'
import sharp from 'sharp'
import { Webhook } from 'standardwebhooks'
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import type { ReadQuestion } from '../src/inference/contract/work.ts'
import { Database } from '../src/storage/database.ts'
import { Watches } from '../src/watches/watches.ts'
import { changedCard, type TemporaryCard } from './support/changed-card.ts'
import { CutProxy } from './support/cut-proxy.ts'
import { errorOf, jsonOf, KEY, startTestServer, type TestServer } from './support/server.ts'
import { createTestDatabase, through } from './support/services.ts'
import { newKey, WATCH, WatchClient, type WatchEvent } from './support/watch-client.ts'
import { type Received, WebhookReceiver } from './support/webhook-receiver.ts'

interface Webhooked extends Record<string, unknown> {
  readonly id: string
  readonly webhook: {
    readonly secret?: string
    readonly status: string
    readonly pending: number
    readonly last_error: string | null
  }
}

const SECRET = `whsec_${Buffer.alloc(32, 7).toString('base64')}`
const ON = { 'Yes.': 0.9, 'No.': 0.1 }
const OFF = { 'Yes.': 0.1, 'No.': 0.9 }
/** Between attempts, and how many follow the first. */
const RETRIES_MS = [50, 50, 50]
const LEASE_MS = 1_000

let card: TemporaryCard
let server: TestServer
let database: Database
let picture: Buffer
beforeAll(async () => {
  picture = await sharp({ create: { width: 96, height: 54, channels: 3, background: 'white' } })
    .png()
    .toBuffer()
  card = await changedCard(({ decision: _decision, ...card }) => card)
  server = await startTestServer({
    // A database of its own: servers of other tests are not to run its watches.
    environment: {
      DATABASE_URL: '',
      LOOKOUT_WATCHES: '16',
      LOOKOUT_MODEL_CARD: card.path,
      LOOKOUT_METRICS_PORT: '0',
      // Any port of it.
      LOOKOUT_WEBHOOK_HOSTS: '127.0.0.1',
    },
    watches: { beatMs: 20, silenceMs: 60_000, webhooks: { timeoutMs: 2_000, retriesMs: RETRIES_MS } },
  })
  database = await Database.open({ url: null, directory: `${server.directory}/database`, cacheDirectory: '' })
})
afterAll(async () => {
  await database?.close()
  await server?.close()
  await card?.remove()
})
beforeEach(() => answer(OFF))

function answer(odds: Readonly<Record<string, number>>) {
  server.engine.script = {
    read: ({ replies }: ReadQuestion) => replies.map((reply) => Math.log(odds[reply] ?? 1e-9)),
  }
}

async function receiver(): Promise<WebhookReceiver> {
  const started = await WebhookReceiver.start()
  onTestFinished(() => started.close())
  return started
}

/** A client, and a watch of it that sends its events to the receiver. */
async function watching({ url }: { readonly url: string }, webhook: object = {}) {
  const client = new WatchClient(server, (await newKey(database)).key)
  const watch = (await client.made({ webhook: { url, secret: SECRET, ...webhook } })) as unknown as Webhooked
  return { client, watch, id: watch.id }
}

/** Lets an event start and end. */
async function happen(client: WatchClient, id: string): Promise<void> {
  for (const odds of [ON, OFF]) {
    answer(odds)
    await client.look(id, picture)
  }
}

const webhookOf = async (client: WatchClient, id: string) => ((await client.find(id)) as unknown as Webhooked).webhook
const typesOf = (events: readonly WatchEvent[]) => events.map(({ type }) => type)
const STARTED = 'watch.event.started'
const ENDED = 'watch.event.ended'

/** A receiver's check, as the libraries of OpenAI and of Standard Webhooks make it. */
const CHECKS = {
  openai: ({ body, headers }: Received, secret: string) =>
    new OpenAI({ apiKey: 'none' }).webhooks.unwrap(body, headers as Record<string, string>, secret),
  standardwebhooks: async ({ body, headers }: Received, secret: string) =>
    new Webhook(secret).verify(body, headers as Record<string, string>),
}

describe('webhooks', () => {
  test.each(Object.entries(CHECKS))('carry events that the client of %s accepts, and no others', async (_, check) => {
    const hook = await receiver()
    const { client, watch, id } = await watching(hook, { secret: undefined })
    const secret = watch.webhook.secret!
    await happen(client, id)
    // A machine that stands still makes gaps, which are told too.
    const changes = () => hook.received.filter(({ event }) => event.type.startsWith('watch.event.'))
    await expect.poll(() => changes().length, { interval: 20 }).toBe(2)
    const [first, second] = changes() as [Received, Received]
    expect(await check(first, secret)).toEqual(first.event)
    expect(await check(second, secret)).toEqual(second.event)
    expect(first.headers).toMatchObject({ 'webhook-id': first.event.id, 'content-type': 'application/json' })
    expect([first.event, second.event]).toEqual(await client.changes(id))

    const tampered = { ...first, body: first.body.replace('lamp', 'door') }
    const replayed = { ...first, headers: { ...first.headers, 'webhook-timestamp': '1700000000' } }
    const exchanged = { ...first, headers: { ...first.headers, 'webhook-id': second.event.id } }
    for (const wrong of [tampered, replayed, exchanged]) await expect(check(wrong, secret)).rejects.toThrow()
    await expect(check(first, SECRET)).rejects.toThrow()
    // The secret is shown once.
    expect(await webhookOf(client, id)).toEqual({
      ...{ url: hook.url, types: expect.arrayContaining([STARTED, 'watch.offline']), status: 'active' },
      ...{ pending: 0, last_error: null },
    })
  })

  test('carry the types that were asked for, and change with the watch', async () => {
    const [hook, other] = [await receiver(), await receiver()]
    const { client, watch, id } = await watching(hook, { types: [ENDED] })
    expect(watch.webhook).not.toHaveProperty('secret')
    await happen(client, id)
    await expect.poll(() => typesOf(hook.eventsOf(id)), { interval: 20 }).toEqual([ENDED])
    const change = async (webhook: object | null) => {
      const response = await client.ask('PATCH', `/${id}`, { webhook })
      expect(response.status).toBe(200)
      return (await jsonOf<Webhooked>(response)).webhook
    }
    // It keeps its secret.
    expect(await change({ url: other.url })).toMatchObject({ url: other.url })
    await happen(client, id)
    await expect.poll(() => typesOf(other.eventsOf(id)), { interval: 20 }).toEqual([STARTED, ENDED])
    await CHECKS.openai(other.received[0]!, SECRET)
    expect(await change(null)).toBeNull()
    await happen(client, id)
    expect(await change({ url: other.url })).toMatchObject({ secret: expect.stringMatching(/^whsec_/), pending: 0 })
    expect([hook.received.length, other.received.length]).toEqual([1, 2])
  })

  test('are sent again to a receiver that fails, with the same id, and hold up no others', async () => {
    const hook = await receiver()
    // It takes the start only after the end. It refuses it at first, and then hangs, so that attempts are left.
    hook.answer = ({ event }) => {
      const received = (type: string) => hook.received.filter((one) => one.event.type === type).length
      if (event.type !== STARTED || received(ENDED) > 0) return { status: 200 }
      return received(STARTED) === 1 ? { status: 500 } : null
    }
    const { client, id } = await watching(hook)
    answer(ON)
    await client.look(id, picture)
    await expect.poll(async () => (await webhookOf(client, id)).last_error, { interval: 10 }).not.toBeNull()
    answer(OFF)
    await client.look(id, picture)
    await expect.poll(async () => (await webhookOf(client, id)).pending, { interval: 20 }).toBe(0)
    const told = hook.eventsOf(id)
    expect(new Set(told.map((event) => event.id)).size).toBe(2)
    expect(told.at(-1)).toEqual(told[0])
    expect(await webhookOf(client, id)).toMatchObject({ status: 'active', last_error: null })
    const metrics = await (await fetch(server.service.metricsUrl!)).text()
    for (const line of [
      'webhook_deliveries_total{result="delivered"}',
      'webhook_deliveries_total{result="failed"}',
      'watches{state="running"}',
      'watch_frames_total{result="looked"}',
      'watch_look_seconds_count',
      `watch_events_total{type="${STARTED}"}`,
    ]) {
      const value = metrics.split('\n').find((text) => text.startsWith(`lookout_${line} `))
      expect(Number(value?.split(' ').at(-1)), line).toBeGreaterThan(0)
    }
  })

  test('to a receiver that hangs wait, while others get theirs', async () => {
    const [hanging, hook] = [await receiver(), await receiver()]
    hanging.answer = () => (hanging.received.length === 1 ? null : { status: 200 })
    const one = await watching(hanging, { types: [STARTED] })
    const other = await watching(hook)
    answer(ON)
    await one.client.look(one.id, picture)
    await expect.poll(() => hanging.received.length, { interval: 10 }).toBeGreaterThan(0)
    await happen(other.client, other.id)
    await expect.poll(() => hook.eventsOf(other.id).length, { interval: 10 }).toBe(2)
    await expect.poll(() => hanging.received.length).toBeGreaterThan(1)
    await expect.poll(async () => webhookOf(one.client, one.id)).toMatchObject({ pending: 0, last_error: null })
    expect(hanging.received[1]!.event).toEqual(hanging.received[0]!.event)
  })

  test('follow no redirect, and an event is given up in the end', async () => {
    const [hook, elsewhere] = [await receiver(), await receiver()]
    hook.answer = () => ({ status: 307, headers: { location: elsewhere.url } })
    const { client, id } = await watching(hook, { types: [STARTED] })
    answer(ON)
    await client.look(id, picture)
    await expect.poll(async () => (await webhookOf(client, id)).pending, { interval: 20 }).toBe(0)
    expect(await webhookOf(client, id)).toMatchObject({
      status: 'active',
      last_error: 'HTTP 307: redirects are not followed; an event was given up after 4 attempts',
    })
    expect([hook.received.length, elsewhere.received.length]).toEqual([RETRIES_MS.length + 1, 0])
  })

  test('end when the receiver answers 410, until the watch names one again', async () => {
    const hook = await receiver()
    hook.answer = () => ({ status: 410 })
    const { client, id } = await watching(hook)
    await happen(client, id)
    const ended = { status: 'ended', pending: 0, last_error: 'HTTP 410' }
    await expect.poll(() => webhookOf(client, id), { interval: 20 }).toMatchObject(ended)
    const got = hook.received.length
    await happen(client, id)
    hook.answer = () => ({ status: 200 })
    const changed = await client.ask('PATCH', `/${id}`, { webhook: { url: hook.url } })
    expect(await jsonOf(changed)).toMatchObject({ webhook: { status: 'active', pending: 0, last_error: null } })
    await happen(client, id)
    await expect.poll(() => hook.received.length, { interval: 20 }).toBe(got + 2)
    const last = (await client.changes(id)).slice(-2)
    expect(hook.eventsOf(id).slice(-2)).toEqual(last)
  })

  test('and streams tell the end of what goes on when a watch is deleted', async () => {
    const hook = await receiver()
    const { client, id } = await watching(hook)
    answer(ON)
    await client.look(id, picture)
    // The watch goes while the stream has found nothing new, and does not know yet that it is over.
    const [read, gone] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    const { events } = Watches.prototype
    vi.spyOn(Watches.prototype, 'events').mockImplementation(async function (this: Watches, ...asked) {
      const rows = await Reflect.apply(events, this, asked)
      if (rows.length > 0) return rows
      read.resolve()
      await gone.promise
      return rows
    })
    const streamed = client.stream(id, Number.POSITIVE_INFINITY, '?after=0')
    await read.promise
    await client.ask('DELETE', `/${id}`)
    gone.resolve()
    expect((await client.ask('GET', `/${id}`)).status).toBe(404)
    expect((await client.ask('DELETE', `/${id}`)).status).toBe(404)
    expect(await jsonOf(await client.ask('GET', ''))).toMatchObject({ data: [] })
    // Streams and webhooks tell the same, and the stream ends.
    const told = (await streamed) as unknown as WatchEvent[]
    const [started, ended] = told.filter(({ type }) => type.startsWith('watch.event.'))
    expect(ended).toMatchObject({ type: ENDED, data: { happening: started!.data.happening, reason: 'deleted' } })
    await expect.poll(() => hook.eventsOf(id), { interval: 20 }).toEqual(told)
  })

  test.each([
    [{ url: 'http://10.0.0.1/' }, 'webhook.url', /not public.*LOOKOUT_WEBHOOK_HOSTS/],
    [{ url: 'http://[::1]/' }, 'webhook.url', /not public/],
    [{ url: 'http://169.254.169.254/' }, 'webhook.url', /not public/],
    [{ url: 'https://example.org:8443/' }, 'webhook.url', /port 8443/],
    [{ url: 'ftp://example.org/' }, 'webhook.url', /http/],
    [{ url: 'example.org' }, 'webhook.url', /http/],
    [{ url: 'https://example.org/\0' }, 'webhook.url', /NUL/],
    [{ url: 'https://me:secret@example.org/' }, 'webhook.url', /without a user name/],
    [{ url: 'https://example.org/', secret: 'whsec_short' }, 'webhook.secret', /24 to 64 bytes/],
    [{ url: 'https://example.org/', types: ['watch.event'] }, 'webhook.types[0]', /watch\.event\.started/],
    [{}, 'webhook.url', /required/],
  ])('%j is refused, by the name of the parameter', async (webhook, param, message) => {
    const client = new WatchClient(server, (await newKey(database)).key)
    const response = await client.ask('POST', '', { ...WATCH, webhook })
    const error = await errorOf(response)
    expect([response.status, error]).toEqual([
      400,
      expect.objectContaining({ param, message: expect.stringMatching(message) }),
    ])
    expect(error.message).not.toContain('secret@')
  })

  test('are not sent to a name whose address is private', async () => {
    const { client, id } = await watching({ url: 'http://localhost/hook' }, { types: [STARTED] })
    answer(ON)
    await client.look(id, picture)
    await expect
      .poll(async () => (await webhookOf(client, id)).last_error, { interval: 20 })
      .toMatch(/^its address is not public/)
  })
})

describe('with LOOKOUT_SECRET', () => {
  test('secrets of webhooks are encrypted in the database, those from before too', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'lookout-secret-'))
    onTestFinished(() => rm(directory, { recursive: true, force: true, maxRetries: 5 }))
    const open = (LOOKOUT_SECRET: string) =>
      startTestServer({
        environment: {
          ...{ LOOKOUT_DATA_DIR: directory, DATABASE_URL: '', LOOKOUT_SECRET, LOOKOUT_WATCHES: '4' },
          ...{ LOOKOUT_MODEL_CARD: card.path, LOOKOUT_WEBHOOK_HOSTS: '127.0.0.1' },
        },
        watches: { beatMs: 20, silenceMs: 60_000, webhooks: { timeoutMs: 2_000, retriesMs: RETRIES_MS } },
      })
    const hook = await receiver()
    let own = await open('')
    const stored = await Database.open({ url: null, directory: join(directory, 'database'), cacheDirectory: '' })
    onTestFinished(() => stored.close())
    onTestFinished(() => own.close())
    const reopen = async (secret: string) => {
      await own.close()
      own = await open(secret)
    }
    const secretsIn = async () =>
      (await stored.use((queries) => queries.execute('select secret from watch_webhooks'))).rows.map(
        ({ secret }) => secret as string,
      )
    /** Lets an event start or end. @returns what the receiver got of it. */
    const told = async (id: string, odds: Readonly<Record<string, number>>) => {
      own.engine.script = { read: ({ replies }) => replies.map((reply) => Math.log(odds[reply] ?? 1e-9)) }
      const before = hook.received.length
      await new WatchClient(own, KEY).look(id, picture)
      // A stop of the server is told too.
      const isChange = ({ event }: Received) => event.data.watch === id && event.type.startsWith('watch.event.')
      await expect.poll(() => hook.received.slice(before).some(isChange), { interval: 20 }).toBe(true)
      return hook.received.slice(before).find(isChange)!
    }
    const add = async (secret?: string) => {
      const webhook = { url: hook.url, ...(secret && { secret }) }
      return (await jsonOf(
        await new WatchClient(own, KEY).ask('POST', '', { ...WATCH, webhook }),
      )) as unknown as Webhooked
    }

    const before = await add(SECRET)
    expect(await secretsIn()).toEqual([SECRET])
    await CHECKS.openai(await told(before.id, ON), SECRET)

    await reopen('first secret of this server '.repeat(2))
    await expect.poll(async () => (await secretsIn()).join(), { interval: 20 }).not.toContain('whsec_')
    const after = await add()
    expect((await secretsIn()).join()).not.toContain('whsec_')
    await CHECKS.openai(await told(before.id, OFF), SECRET)
    await CHECKS.openai(await told(after.id, ON), after.webhook.secret!)

    await reopen('another secret of this server '.repeat(2))
    const client = new WatchClient(own, KEY)
    own.engine.script = { read: ({ replies }) => replies.map((reply) => Math.log(OFF[reply as 'No.'] ?? 1e-9)) }
    await client.look(after.id, picture)
    await expect
      .poll(async () => (await webhookOf(client, after.id)).last_error, { interval: 20 })
      .toMatch(/LOOKOUT_SECRET has changed/)
    await client.ask('PATCH', `/${after.id}`, { webhook: { url: hook.url, secret: SECRET } })
    await CHECKS.openai(await told(after.id, ON), SECRET)
  })
})

const postgres = await createTestDatabase()
const title = postgres === null ? ' (PostgreSQL is not running here)' : ''

describe.skipIf(postgres === null)(`while PostgreSQL is away${title}`, () => {
  afterAll(() => postgres?.drop())

  test('events wait, and those who follow get each once and in order', async () => {
    const { hostname, port } = new URL(postgres!.url)
    const proxy = await CutProxy.start(Number(port || 5432), hostname)
    const away = await startTestServer({
      environment: {
        DATABASE_URL: through(postgres!.url, proxy.port),
        LOOKOUT_WATCHES: '2',
        LOOKOUT_MODEL_CARD: card.path,
        LOOKOUT_WEBHOOK_HOSTS: '127.0.0.1',
      },
      // It is away for longer than leases last.
      watches: {
        ...{ beatMs: 20, leaseMs: LEASE_MS, silenceMs: 60_000 },
        webhooks: { timeoutMs: 1_000, retriesMs: RETRIES_MS },
      },
    })
    onTestFinished(async () => {
      await away.close()
      await proxy.cut()
    })
    const hook = await receiver()
    const client = new WatchClient(away, KEY)
    const { id } = await client.made({ webhook: { url: hook.url, secret: SECRET } })
    const streamed = client.stream(id, Number.POSITIVE_INFINITY, '?after=0')
    const flip = async (odds: Readonly<Record<string, number>>) => {
      away.engine.script = { read: ({ replies }) => replies.map((reply) => Math.log(odds[reply] ?? 1e-9)) }
      await client.look(id, picture)
    }
    await flip(ON)
    for (let cuts = 0; cuts < 2; cuts++) {
      await proxy.cut()
      away.engine.script = { read: ({ replies }) => replies.map((reply) => Math.log(OFF[reply as 'No.'] ?? 1e-9)) }
      const push = async () => (await client.ask('POST', `/${id}/frames?wait=true`, picture)).status
      await expect.poll(push, { interval: 20 }).toBe(503)
      const cutAt = performance.now()
      await expect.poll(() => performance.now() - cutAt, { interval: 50 }).toBeGreaterThan(LEASE_MS)
      await proxy.mend()
      await flip(OFF)
      await flip(ON)
    }
    const told = await client.events(id)
    expect(told.map(({ data }) => data.seq)).toEqual(told.map((_, i) => i + 1))
    const changes = told.filter(({ type }) => type.startsWith('watch.event.'))
    expect(typesOf(changes)).toEqual([STARTED, ENDED, STARTED, ENDED, STARTED])
    const bySeq = () => new Map(hook.eventsOf(id).map((event) => [event.data.seq, event]))
    await expect.poll(() => [...bySeq()].sort(([one], [other]) => one - other).map(([, event]) => event)).toEqual(told)
    // What came more than once came with the same id.
    expect(new Set(hook.received.map(({ event }) => event.id)).size).toBe(told.length)
    await client.ask('DELETE', `/${id}`)
    expect((await streamed).slice(0, told.length)).toEqual(told)
  })
})
