import { randomBytes } from 'node:crypto'
import { readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { Database } from '../src/storage/database.ts'
import { BatchClient, CHAT, chatLines } from './support/batches.ts'
import { encodeCameraVideo, plainImage } from './support/camera-video.ts'
import { changedCard } from './support/changed-card.ts'
import { outcomeOf, startLookout } from './support/command-line.ts'
import { RtspCamera } from './support/rtsp-camera.ts'
import { errorOf, jsonOf, KEY, startTestServer, type TestServer } from './support/server.ts'
import { fill, ImageDisk, mountSmallDisk, unmount } from './support/small-disk.ts'
import { WatchClient, type WatchEvent } from './support/watch-client.ts'

const FULL_DATABASE = "The server's storage is full: it has no room for the database; try again later"
/** More than what is free in the pages that the database has, and nothing that it could compress. */
const TOO_MUCH = randomBytes(10_000).toString('hex')
const mounted = await mountSmallDisk()
const title = mounted ? 'on a full disk' : 'on a full disk (skipped: mounting one requires root on Linux)'

afterAll(async () => {
  if (mounted !== null) await unmount(mounted)
})

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

test.skipIf(mounted === null)(`a new database says that it is ${title}`, async () => {
  const junk = join(mounted!, 'junk-of-start')
  onTestFinished(() => rm(junk, { force: true }))
  await fill(junk)
  const { code, stderr } = await outcomeOf(startLookout(['orgs', 'list'], { LOOKOUT_DATA_DIR: join(mounted!, 'late') }))
  expect(code).toBe(1)
  expect(stderr).toMatch(/^lookout: The database in \S+ does not open: [^\n]+; its disk is full\n$/)
})

describe('a disk of its own', () => {
  async function startOn(directory: string) {
    const environment = { LOOKOUT_DATA_DIR: join(directory, 'data'), DATABASE_URL: '', LOOKOUT_BLOBS: '' }
    const server = await startTestServer({ environment })
    const headers = { authorization: `Bearer ${KEY}` }
    const upload = (bytes: Buffer) => {
      const body = new FormData()
      body.append('file', new Blob([new Uint8Array(bytes)]), 'a.png')
      body.append('purpose', 'vision')
      return fetch(`${server.url}/v1/files`, { method: 'POST', headers, body })
    }
    return { server, upload, environment }
  }
  const picture = () => readFile(new URL('../docs/pictures/shapes.png', import.meta.url))

  test('that loses its power right after a first start has what was acknowledged', async ({ skip }) => {
    const disk = (await ImageDisk.mount()) ?? skip('mounting one requires root on Linux')
    onTestFinished(() => disk.unmount())
    const png = await picture()
    const first = await startOn(disk.directory)
    const { id } = await jsonOf<{ id: string }>(await first.upload(png))
    const left = await disk.withoutPower()
    onTestFinished(() => left.unmount())
    await first.server.close()
    const second = await startOn(left.directory)
    const kept = await second.server.get(`/v1/files/${id}/content`)
    expect(Buffer.from(await kept.arrayBuffer()).equals(png)).toBe(true)
    await second.server.close()
  })

  test('that becomes read-only costs files, and no chat and no process', async ({ skip }) => {
    const disk = (await ImageDisk.mount()) ?? skip('mounting one requires root on Linux')
    onTestFinished(() => disk.unmount())
    const png = await picture()
    const { server, upload, environment } = await startOn(disk.directory)
    expect((await upload(png)).status).toBe(200)
    disk.fail()
    for (let n = 0; n < 3; n++) expect((await upload(png)).status).toBe(503)
    expect(await errorOf(await server.get('/v1/files'))).toMatchObject({ type: 'server_error' })
    const body = { model: 'service-mk1.5', messages: [{ role: 'user', content: 'Hi' }] }
    expect((await server.post('/v1/chat/completions', body)).status).toBe(200)
    await server.close()
    const { code, stderr } = await outcomeOf(startLookout(['orgs', 'list'], environment))
    expect(code).toBe(1)
    expect(stderr).toMatch(/^lookout: The database in \S+ does not open: EROFS: [^\n]*read-only[^\n]*\n$/)
  })

  test('that has no room for another file keeps no server from its start', async ({ skip }) => {
    const directory = (await mountSmallDisk('size=300m,nr_inodes=3000')) ?? skip('mounting one requires root on Linux')
    onTestFinished(() => unmount(directory))
    const first = await startOn(directory)
    for (let name = 0, full = false; !full; name++) {
      full = await writeFile(join(directory, String(name)), '').then(
        () => false,
        () => true,
      )
    }
    await first.server.close()
    const { server, upload } = await startOn(directory)
    expect((await upload(await picture())).status).toBe(503)
    expect((await server.get('/v1/files')).status).toBe(200)
    await server.close()
  })
})

/** A server whose watches ask a question that the test answers. */
async function startWatching(environment: Record<string, string>): Promise<TestServer> {
  const card = await changedCard(({ decision: _decision, ...card }) => card)
  onTestFinished(() => card.remove())
  const server = await startTestServer({
    environment: { DATABASE_URL: '', LOOKOUT_WATCHES: '2', LOOKOUT_MODEL_CARD: card.path, ...environment },
    watches: { beatMs: 20 },
  })
  onTestFinished(() => server.close())
  return server
}

function answer({ engine }: TestServer, isOn: boolean): void {
  const yes = isOn ? 0.9 : 0.1
  engine.script = { read: ({ replies }) => replies.map((reply) => Math.log(reply === 'Yes.' ? yes : 1 - yes)) }
}

describe.skipIf(mounted === null)(`a watch whose pictures are ${title}`, () => {
  test('tells each event once, says that the picture is not kept, and keeps the next one', async () => {
    const blobs = join(mounted!, 'pictures')
    const server = await startWatching({ LOOKOUT_BLOBS: blobs })
    const client = new WatchClient(server, KEY)
    const png = await readFile(new URL('../docs/pictures/shapes.png', import.meta.url))
    const { id } = await client.made()
    const followed = client.stream(id, 4)
    const junk = join(mounted!, 'junk-of-watch')
    onTestFinished(() => rm(junk, { force: true }))
    await fill(junk)
    for (const isOn of [true, false, true]) {
      if (isOn && (await client.changes(id)).length > 0) await rm(junk)
      answer(server, isOn)
      await client.look(id, png)
    }
    answer(server, false)
    await client.look(id, png)
    const frames = (await client.changes(id)).map(({ type, data }) => [
      type.split('.').at(-1),
      (data.frame as { file_id: string | null }).file_id !== null,
      (data.frame as { file_error: string | null }).file_error,
    ])
    expect(frames).toEqual([
      ['started', false, 'storage'],
      ['ended', false, null],
      ['started', true, null],
      ['ended', false, null],
    ])
    expect((await followed).map((event) => event as unknown as WatchEvent)).toEqual(
      (await client.events(id)).slice(0, 4),
    )
    const [, , { data }] = (await client.changes(id)) as [unknown, unknown, WatchEvent]
    const { file_id } = data.frame as { file_id: string }
    const kept = await server.get(`/v1/files/${file_id}/content`)
    expect(Buffer.from(await kept.arrayBuffer()).equals(png)).toBe(true)
  })
})

describe.skipIf(mounted === null)(`a clip that is ${title}`, () => {
  test('is unavailable, and its events are told', async () => {
    const frames = [plainImage(64, 48, [220, 30, 30])]
    await using camera = await RtspCamera.start(encodeCameraVideo({ codec: 'h264', frames, interval: 1 }))
    const server = await startWatching({
      LOOKOUT_BLOBS: join(mounted!, 'clips'),
      LOOKOUT_CAMERA_HOSTS: '127.0.0.1',
    })
    const client = new WatchClient(server, KEY)
    const source = { type: 'rtsp', url: camera.url }
    answer(server, false)
    const { id } = await client.made({ source, record: { frame: false, before_seconds: 1, after_seconds: 0 } })
    const clips = async () => {
      const told = (await client.events(id)).filter(({ type }) => type === 'watch.event.clip')
      return told.map(({ data }) => data.clip as { status: string; reason: string | null })
    }
    await expect.poll(async () => (await client.find(id)).status, { interval: 50 }).toBe('running')
    const junk = join(mounted!, 'junk-of-clip')
    onTestFinished(() => rm(junk, { force: true }))
    await fill(junk)
    answer(server, true)
    await expect.poll(clips).toMatchObject([{ status: 'unavailable', reason: 'storage' }])
    await rm(junk)
    answer(server, false)
    await expect.poll(async () => (await client.changes(id)).at(-1)!.type).toBe('watch.event.ended')
    answer(server, true)
    await expect.poll(async () => (await clips()).at(-1)).toMatchObject({ status: 'available', reason: null })
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
  })
  afterAll(async () => {
    await database?.close()
    await server?.close()
  })

  /** What PostgreSQL says of every row that it should write, on a full disk. @returns what makes room again. */
  async function withoutRoom(full = database, tables = TABLES): Promise<() => Promise<void>> {
    await full.use((queries) =>
      queries.execute(`create or replace function no_room() returns trigger language plpgsql as $$
        begin raise exception 'could not extend file: No space left on device' using errcode = 'disk_full'; end $$`),
    )
    const each = (statement: (table: string) => string) =>
      full.use((queries) => queries.execute(tables.map(statement).join(';')))
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

  test('costs a watch looks and no event', async () => {
    const own = await startWatching({})
    const rows = await openDatabase(own.directory)
    onTestFinished(() => rows.close())
    const client = new WatchClient(own, KEY)
    const { id } = await client.made()
    const png = await readFile(new URL('../docs/pictures/shapes.png', import.meta.url))
    const push = async () => (await client.ask('POST', `/${id}/frames?wait=true`, png)).status
    answer(own, false)
    await client.look(id, png)
    const makeRoom = await withoutRoom(rows, ['watch_events', 'files'])
    answer(own, true)
    await expect.poll(push, { interval: 20 }).toBe(503)
    expect((await own.get('/v1/models')).status).toBe(200)
    expect(await client.changes(id)).toEqual([])
    await makeRoom()
    await client.look(id, png)
    answer(own, false)
    await client.look(id, png)
    const told = await client.changes(id)
    expect(told.map(({ type }) => type)).toEqual(['watch.event.started', 'watch.event.ended'])
    expect(told[0]!.data).toMatchObject({ frame: { file_id: expect.stringMatching(/^file-/), file_error: null } })
    const numbers = (await client.events(id)).map(({ data }) => data.seq)
    expect(numbers).toEqual(numbers.map((_, i) => i + 1))
  })
})
