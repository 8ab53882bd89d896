import { mkdir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import pg from 'pg'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { modelOverloaded } from '../src/lib/errors/errors.ts'
import { BatchClient, CHAT, chatBody, chatLines } from './support/batches.ts'
import { KEY, startTestServer, type TestServer } from './support/server.ts'
import { createTestDatabase } from './support/services.ts'

/** Batches while something that they need fails. */
const PAUSE_MS = 100

let server: TestServer
let client: BatchClient
beforeAll(async () => {
  server = await startTestServer({
    environment: { DATABASE_URL: '', LOOKOUT_BLOBS: '', LOOKOUT_BATCH_LINES: '4' },
    batches: { pollMs: 50, pauseMs: PAUSE_MS },
  })
  client = new BatchClient(server.url, KEY)
})
afterAll(() => server?.close())
afterEach(() => {
  server.engine.script = { texts: ['Hello', ' there.'] }
})

/** Makes the bytes of a file unreadable, as a broken disk does. @returns what mends it. */
async function breakFile(id: string): Promise<() => Promise<void>> {
  const path = join(server.directory, 'files', 'kept', 'default', id.slice(-2), id)
  await rename(path, `${path}.away`)
  await mkdir(path)
  return async () => {
    await rm(path, { recursive: true })
    await rename(`${path}.away`, path)
  }
}

/** The lines by which the server said that a batch waits. */
const warnings = (batch: string): { readonly time: number; readonly pauseMs: number }[] =>
  server.logs.filter((line) => line.includes('waits') && line.includes(batch)).map((line) => JSON.parse(line))

/** Waits until a batch was tried four times, with a longer pause each time. A line that works meanwhile begins again. */
async function expectPauses(batch: string): Promise<void> {
  const longest = 8 * PAUSE_MS
  await expect.poll(() => warnings(batch).map(({ pauseMs }) => pauseMs)).toContain(longest)
  const waits = warnings(batch)
  const last = waits.findIndex(({ pauseMs }) => pauseMs === longest)
  const tried = waits.slice(last - 3, last + 1)
  expect(tried.map(({ pauseMs }) => pauseMs)).toEqual([1, 2, 4, 8].map((times) => times * PAUSE_MS))
  for (const [index, { time }] of tried.slice(1).entries())
    expect(time - tried[index]!.time).toBeGreaterThan(0.9 * tried[index]!.pauseMs)
}

describe('an input that cannot be read for a while', () => {
  test('is tried less and less often, and validated when it can be read', async () => {
    const input_file_id = await client.upload(chatLines(3))
    const mend = await breakFile(input_file_id)
    const params = { input_file_id, endpoint: CHAT, completion_window: '24h' } as const
    const { id } = await client.openai.batches.create(params)
    await expectPauses(id)
    await mend()
    expect(await client.ended(id)).toMatchObject({ status: 'completed', request_counts: { completed: 3 } })
  })

  test('stops its own lines only, and they run when it can be read', async () => {
    server.engine.script = { texts: ['slow'], delayMs: 100 }
    const before = server.engine.works.length
    const { id, input_file_id } = await client.start(chatLines(40))
    await expect.poll(() => server.engine.works.length - before, { interval: 5 }).toBeGreaterThanOrEqual(4)
    const mend = await breakFile(input_file_id)
    await expectPauses(id)
    const other = await client.ended((await client.start(chatLines(8))).id)
    expect(other).toMatchObject({ status: 'completed', request_counts: { completed: 8 } })
    await mend()
    const ended = await client.ended(id)
    expect(ended).toMatchObject({ status: 'completed', request_counts: { total: 40, completed: 40, failed: 0 } })
  })
})

describe('a model that is not available for a while', () => {
  const busy = (times: number) => {
    let left = times
    return () => (left-- > 0 ? modelOverloaded('The queue is full', 1) : undefined)
  }

  test.each([
    [CHAT, chatBody('Hello')],
    ['/v1/messages', { model: 'service-mk1.5', max_tokens: 9, messages: [{ role: 'user', content: 'Hello' }] }],
  ])('has its lines of %s run again later', async (url, body) => {
    server.engine.script = { texts: ['Hello'], refusal: busy(9) }
    const lines = ['a', 'b', 'c'].map((custom_id) => ({ custom_id, body }))
    const ended = await client.ended((await client.start(lines, { url })).id)
    expect(ended).toMatchObject({ status: 'completed', request_counts: { total: 3, completed: 3, failed: 0 } })
  })
})

const postgres = await createTestDatabase()
const title = postgres === null ? ' (PostgreSQL is not running here)' : ''

describe.skipIf(postgres === null)(`servers on PostgreSQL${title}`, () => {
  let shared: TestServer
  let asked: BatchClient
  let admin: pg.Client
  beforeAll(async () => {
    admin = new pg.Client({ connectionString: postgres!.url })
    await admin.connect()
    shared = await startTestServer({
      environment: { DATABASE_URL: postgres!.url, LOOKOUT_BLOBS: '', LOOKOUT_BATCH_LINES: '4' },
      batches: { pollMs: 100 },
    })
    asked = new BatchClient(shared.url, KEY)
  })
  afterAll(async () => {
    await shared?.close()
    await admin?.end()
    await postgres?.drop()
  })

  test('wait for the lines of one that has died without asking for them all the time', async () => {
    shared.engine.script = { texts: ['slow'], endless: true }
    const { id } = await asked.start(chatLines(4))
    await expect.poll(() => shared.engine.works.length, { interval: 10 }).toBe(4)
    await admin.query("update batch_lines set lease = 'dead', leased_until = now() + interval '2 seconds'")
    const transactions = async () =>
      Number(
        (await admin.query('select xact_commit from pg_stat_database where datname = current_database()')).rows[0]!
          .xact_commit,
      )
    const [before, since] = [await transactions(), performance.now()]
    await asked.openai.batches.cancel(id)
    expect((await asked.ended(id)).status).toBe('cancelled')
    // Each look takes a handful, and there are ten a second.
    const seconds = (performance.now() - since) / 1000
    expect(((await transactions()) - before) / seconds).toBeLessThan(200)
  })

  test('read a few inputs at a time, however many there are', async () => {
    shared.engine.script = { texts: ['Hello'] }
    const input_file_id = await asked.upload(chatLines(4_000))
    const params = { input_file_id, endpoint: CHAT, completion_window: '24h' } as const
    const made = await Promise.all(Array.from({ length: 12 }, () => asked.openai.batches.create(params)))
    let most = 0
    const busy = async () => {
      const { rows } = await admin.query('select count(*)::int as count from batches where leased_until > now()')
      most = Math.max(most, rows[0]!.count)
      const { rows: waiting } = await admin.query("select 1 from batches where status = 'validating'")
      return waiting.length
    }
    await expect.poll(busy, { interval: 5 }).toBe(0)
    expect(most).toBeGreaterThan(0)
    expect(most).toBeLessThanOrEqual(2)
    for (const { id } of made) await asked.openai.batches.cancel(id)
    for (const { id } of made) expect((await asked.ended(id)).status).toBe('cancelled')
  })
})
