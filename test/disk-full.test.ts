import { randomBytes } from 'node:crypto'
import { readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Database } from '../src/storage/database.ts'
import { BatchClient, CHAT, chatLines } from './support/batches.ts'
import { errorOf, jsonOf, KEY, startTestServer, type TestServer } from './support/server.ts'
import { fill, mountSmallDisk, unmount } from './support/small-disk.ts'

const FULL_DATABASE = "The server's storage is full: it has no room for the database; try again later"
/** More than what is free in the pages that the database has, and nothing that it could compress. */
const TOO_MUCH = randomBytes(10_000).toString('hex')
const mounted = await mountSmallDisk()
const title = mounted ? 'on a full disk' : 'on a full disk (skipped: mounting one requires root on Linux)'

describe.skipIf(mounted === null)(title, () => {
  const directory = mounted!
  const junk = join(directory, 'junk')
  let server: TestServer
  let png: Buffer
  beforeAll(async () => {
    png = await readFile(new URL('../docs/pictures/shapes.png', import.meta.url))
    // The embedded database is on the same disk.
    server = await startTestServer({
      environment: { LOOKOUT_DATA_DIR: join(directory, 'data'), DATABASE_URL: '', LOOKOUT_BLOBS: '' },
    })
  })
  afterAll(async () => {
    await server?.close()
    await unmount(directory)
  })

  const headers = { authorization: `Bearer ${KEY}` }
  function upload(): Promise<Response> {
    const body = new FormData()
    body.append('file', new Blob([new Uint8Array(png)]), 'a.png')
    body.append('purpose', 'vision')
    return fetch(`${server.url}/v1/files`, { method: 'POST', headers, body })
  }
  const chat = () =>
    server.post('/v1/chat/completions', { model: 'service-mk1.5', messages: [{ role: 'user', content: 'Hi' }] })

  async function isWhole(id: string): Promise<boolean> {
    const response = await fetch(`${server.url}/v1/files/${id}/content`, { headers })
    return response.status === 200 && Buffer.from(await response.arrayBuffer()).equals(png)
  }

  test('uploads are rejected, nothing is lost, and free space is used as soon as there is some', async () => {
    const response = await upload()
    expect(response.status).toBe(200)
    const { id } = await jsonOf<{ id: string }>(response)
    let chats = 0
    for (let round = 0; round < 2; round++) {
      await fill(junk)
      const rejected = await upload()
      expect(rejected.status).toBe(503)
      expect(Number(rejected.headers.get('retry-after'))).toBeGreaterThan(0)
      expect(await errorOf(rejected)).toMatchObject({
        type: 'server_error',
        message: expect.stringMatching(/^The server's storage is full/),
      })
      const unstored = await server.post('/v1/responses', { model: 'service-mk1.5', input: TOO_MUCH })
      expect(unstored.status).toBe(503)
      expect(await errorOf(unstored)).toMatchObject({ type: 'server_error', message: FULL_DATABASE })
      const unseen = await server.post('/v1/chat/completions', {
        model: 'service-mk1.5',
        messages: [{ role: 'user', content: [{ type: 'image_file_id', image_file_id: { file_id: id } }] }],
      })
      expect(unseen.status).toBe(503)
      expect((await errorOf(unseen)).message).toMatch(/no room for more media|storage is full/)
      // A chat without media needs no disk space.
      expect((await chat()).status).toBe(200)
      chats++
      await rm(junk)
      await expect.poll(async () => (await upload()).status, { interval: 300 }).toBe(200)
      expect(await isWhole(id)).toBe(true)
    }
    const listed = await jsonOf<{ data: { id: string }[] }>(await fetch(`${server.url}/v1/files`, { headers }))
    expect(listed.data.length).toBeGreaterThanOrEqual(3)
    for (const file of listed.data) expect(await isWhole(file.id)).toBe(true)
    await expect
      .poll(() => countOf(join(directory, 'data'), "usage where endpoint = 'chat' and status = 200"))
      .toBe(chats)
  })
})

async function countOf(directory: string, what: string): Promise<number> {
  const database = await openDatabase(directory)
  try {
    return Number((await database.use((queries) => queries.execute(`select count(*) from ${what}`))).rows[0]!.count)
  } finally {
    await database.close()
  }
}

const openDatabase = (directory: string) =>
  Database.open({ url: null, directory: join(directory, 'database'), cacheDirectory: '' })

describe('a database without room', () => {
  const TABLES = ['responses', 'files', 'batches', 'batch_lines', 'usage']
  let server: TestServer
  let database: Database
  beforeAll(async () => {
    server = await startTestServer({
      environment: { DATABASE_URL: '', LOOKOUT_BLOBS: '', LOOKOUT_BATCH_LINES: '4' },
      batches: { pollMs: 50 },
    })
    database = await openDatabase(server.directory)
    await database.use((queries) =>
      queries.execute(`create function no_room() returns trigger language plpgsql as $$
        begin raise exception 'could not extend file: No space left on device' using errcode = 'disk_full'; end $$`),
    )
  })
  afterAll(async () => {
    await database?.close()
    await server?.close()
  })

  /** What PostgreSQL says of every row that it should write, on a full disk. @returns what makes room again. */
  async function withoutRoom(): Promise<() => Promise<void>> {
    const each = (statement: (table: string) => string) =>
      database.use((queries) => queries.execute(TABLES.map(statement).join(';')))
    await each((table) => `create trigger full_disk before insert or update on ${table} execute function no_room()`)
    return async () => void (await each((table) => `drop trigger full_disk on ${table}`))
  }

  test('is named as what it is, and everything works again once there is room', async () => {
    const client = new BatchClient(server.url, KEY)
    const input_file_id = await client.upload(chatLines(3))
    const form = new FormData()
    form.append('file', new Blob(['{}\n']), 'a.jsonl')
    form.append('purpose', 'batch')
    const attempts: Record<string, () => Promise<Response>> = {
      response: () => server.post('/v1/responses', { model: 'service-mk1.5', input: 'Hi' }),
      file: () =>
        fetch(`${server.url}/v1/files`, { method: 'POST', headers: { authorization: `Bearer ${KEY}` }, body: form }),
      batch: () => server.post('/v1/batches', { input_file_id, endpoint: CHAT, completion_window: '24h' }),
    }
    const makeRoom = await withoutRoom()
    for (const attempt of Object.values(attempts)) {
      const response = await attempt()
      expect(response.status).toBe(503)
      expect(Number(response.headers.get('retry-after'))).toBeGreaterThan(0)
      expect(await errorOf(response)).toMatchObject({ type: 'server_error', code: null, message: FULL_DATABASE })
    }
    expect(server.logs.filter((line) => line.includes('storage is full')).length).toBeGreaterThanOrEqual(3)
    await makeRoom()
    for (const attempt of Object.values(attempts)) expect((await attempt()).status).toBe(200)
  })

  test('costs a running batch time and no line', async () => {
    const client = new BatchClient(server.url, KEY)
    server.engine.script = { texts: ['slow', ' reply'], delayMs: 20 }
    const before = server.engine.works.length
    const { id } = await client.start(chatLines(40))
    await expect.poll(() => server.engine.works.length - before, { interval: 5 }).toBeGreaterThan(8)
    const makeRoom = await withoutRoom()
    const waits = () => server.logs.filter((line) => line.includes('wait') && line.includes('storage is full')).length
    await expect.poll(waits).toBeGreaterThan(0)
    await makeRoom()
    const ended = await client.ended(id)
    expect(ended).toMatchObject({ status: 'completed', request_counts: { total: 40, completed: 40, failed: 0 } })
    const { output } = await client.outputOf(ended)
    expect(output.map(({ custom_id }) => custom_id).sort()).toEqual(
      chatLines(40)
        .map((l) => l.custom_id)
        .sort(),
    )
    // All that was computed but the two responses above.
    const rows = "usage where status = 200 and endpoint = 'chat'"
    await expect.poll(() => countOf(server.directory, rows)).toBe(server.engine.works.length - 2)
  })
})
