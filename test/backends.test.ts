import { randomBytes } from 'node:crypto'
import { openAsBlob } from 'node:fs'
import { mkdir, mkdtemp, readdir, readFile, rm, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join, relative } from 'node:path'
import { Redis } from 'ioredis'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import { Accounts } from '../src/accounts/accounts.ts'
import { newApiKey } from '../src/accounts/api-key.ts'
import { Database } from '../src/storage/database.ts'
import { sql } from '../src/storage/drizzle.ts'
import { CutProxy } from './support/cut-proxy.ts'
import { openEmbeddedDatabase } from './support/embedded-database.ts'
import { S3Server } from './support/s3-server.ts'
import { errorOf, jsonOf, KEY, startTestServer, type TestServer } from './support/server.ts'
import { createTestDatabase, findRedis, type TestDatabase, through } from './support/services.ts'
import { WATCH } from './support/watch-client.ts'

/** Two servers share PostgreSQL, an S3 store and Redis. The connections to each of them can be cut. */
const postgres = await createTestDatabase()
const redis = await findRedis()
/** The test's own connections to the database, as it names them. */
const OPERATOR = 'operator'
const missing = [postgres === null && 'PostgreSQL', redis === null && 'Redis'].filter(Boolean).join(' and ')
const title =
  missing === '' ? 'on PostgreSQL, S3 and Redis' : `on PostgreSQL, S3 and Redis (${missing} not running here)`

describe.skipIf(missing !== '')(title, () => {
  let s3: S3Server
  let proxies: { database: CutProxy; blobs: CutProxy; redis: CutProxy }
  let servers: TestServer[]
  let accounts: { database: Database; accounts: Accounts }
  let png: Buffer

  beforeAll(async () => {
    png = await readFile(new URL('../docs/pictures/shapes.png', import.meta.url))
    s3 = await S3Server.start()
    proxies = {
      database: await CutProxy.start(Number(new URL(postgres!.url).port || 5432), new URL(postgres!.url).hostname),
      blobs: await CutProxy.start(s3.port),
      redis: await CutProxy.start(Number(new URL(redis!).port || 6379), new URL(redis!).hostname),
    }
    const environment = {
      DATABASE_URL: through(postgres!.url, proxies.database.port),
      LOOKOUT_BLOBS: `s3://lookout/files?endpoint=http://127.0.0.1:${proxies.blobs.port}&young=0`,
      REDIS_URL: through(redis!, proxies.redis.port),
      LOOKOUT_RATE_LIMITS: 'on',
    }
    servers = await Promise.all([startTestServer({ environment }), startTestServer({ environment })])
    const url = new URL(postgres!.url)
    url.searchParams.set('application_name', OPERATOR)
    const database = await Database.open({ url: url.href, directory: '', cacheDirectory: '' })
    accounts = { database, accounts: new Accounts(database) }
  })
  afterAll(async () => {
    await Promise.all((servers ?? []).map((server) => server.close()))
    await accounts?.database.close()
    await s3?.close()
    await postgres?.drop()
  })

  async function newKey(limits = {}, organisation = `test-${randomBytes(6).toString('hex')}`): Promise<string> {
    await accounts.accounts.createOrganisation(organisation, limits)
    return (await accounts.accounts.createKey({ organisation })).key
  }

  const call = (server: number, key: string, path: string, init: RequestInit = {}) =>
    fetch(servers[server]!.url + path, { ...init, headers: { authorization: `Bearer ${key}` } })

  function upload(server: number, key: string, bytes: Buffer, name = 'a.png'): Promise<Response> {
    const body = new FormData()
    body.append('file', new Blob([new Uint8Array(bytes)]), name)
    body.append('purpose', 'vision')
    return call(server, key, '/v1/files', { method: 'POST', body })
  }

  const idOf = async (response: Response) => (await jsonOf<{ id: string }>(response)).id

  test('a file uploaded to one server is available from the other', async () => {
    const key = await newKey()
    const id = await idOf(await upload(0, key, png))
    const content = await call(1, key, `/v1/files/${id}/content`)
    expect(content.headers.get('content-type')).toBe('image/png')
    expect(Buffer.from(await content.arrayBuffer()).equals(png)).toBe(true)
    const part = await fetch(`${servers[1]!.url}/v1/files/${id}/content`, {
      headers: { authorization: `Bearer ${key}`, range: 'bytes=1-3' },
    })
    expect(part.status).toBe(206)
    expect(await part.text()).toBe('PNG')
    expect((await call(1, key, `/v1/files/${id}`, { method: 'DELETE' })).status).toBe(200)
    expect((await call(0, key, `/v1/files/${id}/content`)).status).toBe(404)
    expect([...s3.objects.keys()].filter((name) => name.includes(id))).toEqual([])
  })

  test('limits are exact across both servers', async () => {
    const key = await newKey({ requestsPerMinute: { models: 37 } })
    const statuses = await Promise.all(
      Array.from({ length: 90 }, async (_, i) => {
        const response = await call(i % 2, key, '/v1/models')
        await response.arrayBuffer()
        return response.status
      }),
    )
    expect(statuses.filter((status) => status === 200)).toHaveLength(37)
    const rejected = await call(0, key, '/v1/models')
    expect(rejected.status).toBe(429)
    expect(rejected.headers.get('x-ratelimit-limit-requests')).toBe('37')
    const seconds = Number(rejected.headers.get('retry-after'))
    expect(seconds).toBeGreaterThan(0)
    expect(seconds).toBeLessThanOrEqual(60)
  })

  test('requests that are refused get times of their own across both servers', async () => {
    const organisation = `test-${randomBytes(6).toString('hex')}`
    const key = await newKey({ requestsPerMinute: { models: 2 } }, organisation)
    const past = new Redis(redis!)
    const [now] = await past.time()
    for (const ago of [30, 20]) {
      const then = `${(Number(now) - ago) * 1e6}`
      await past.zadd(`lookout:models:${organisation}`, then, then)
    }
    const seconds: number[] = []
    for (const server of [0, 1, 0]) {
      seconds.push(Number((await call(server, key, '/v1/models')).headers.get('retry-after')))
    }
    const [first, second, third] = seconds as [number, number, number]
    expect(first).toBeLessThanOrEqual(30)
    // Ten seconds later, less what has passed between the two requests.
    expect(second).toBeGreaterThan(first)
    // A third place is free a minute after the first is taken again.
    expect(third).toBe(60)
    // An access list of Redis may have this prefix.
    const keys = await past.keys(`*${organisation}*`)
    past.disconnect()
    expect(keys.sort()).toEqual([expect.stringMatching(/^lookout:/), expect.stringMatching(/^lookout:/)])
  })

  test.each([
    ['database', 'The database is not responding; try again later'],
    ['blobs', 'The file store is not responding; try again later'],
    ['redis', 'Rate limits cannot be checked now; try again later'],
  ] as const)('503 while the %s is unreachable, and recovery without a restart', async (name, message) => {
    const key = await newKey()
    const kept = await idOf(await upload(0, key, png))
    await proxies[name].cut()
    const rejected = await upload(0, key, png)
    expect(rejected.status).toBe(503)
    expect(await errorOf(rejected)).toEqual({ message, type: 'server_error', param: null, code: null })
    expect(Number(rejected.headers.get('retry-after'))).toBeGreaterThan(0)
    expect((await call(0, key, `/v1/files/${kept}/content`)).status).toBe(503)
    // Without the database, a key that is not in the cache cannot be checked.
    if (name === 'database') expect((await call(0, newApiKey(), '/v1/models')).status).toBe(503)
    // Chat needs no database once the key is cached.
    if (name !== 'redis') {
      const chat = await fetch(`${servers[0]!.url}/v1/chat/completions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        body: JSON.stringify({ model: 'service-mk1.5', messages: [{ role: 'user', content: 'Hi' }] }),
      })
      expect(chat.status).toBe(200)
    }
    await proxies[name].mend()
    await expect.poll(async () => (await upload(0, key, png)).status, { interval: 300 }).toBe(200)
    const content = await call(0, key, `/v1/files/${kept}/content`)
    expect(Buffer.from(await content.arrayBuffer()).equals(png)).toBe(true)
  })

  test('a server that the network loses in a transaction does not hold up the others', async () => {
    const organisation = `test-${randomBytes(6).toString('hex')}`
    const key = await newKey({}, organisation)
    const proxy = await CutProxy.toDatabase(postgres!.url)
    const lost = await Database.open({ url: through(postgres!.url, proxy.port), directory: '', cacheDirectory: '' })
    const locked = Promise.withResolvers<void>()
    const transaction = lost.transaction(async (transaction) => {
      // As an upload does.
      await transaction.execute(sql`select from organisations where id = ${organisation} for update`)
      locked.resolve()
      await new Promise(() => {})
    })
    transaction.catch(() => {})
    await locked.promise
    proxy.lose()
    onTestFinished(() => proxy.cut())
    expect((await upload(1, key, png)).status).toBe(200)
  })

  test.each([
    ['the network has lost', ''],
    ['leads to a Redis that is a replica since a failover', '-READONLY\r\n'],
  ])('a connection to Redis that %s is replaced', async (_, answer) => {
    const key = await newKey()
    expect((await call(0, key, '/v1/models')).status).toBe(200)
    proxies.redis.lose(answer)
    expect((await call(0, key, '/v1/models')).status).toBe(503)
    await expect.poll(async () => (await call(0, key, '/v1/models')).status).toBe(200)
  })

  test('a file store that refuses the server is a 503, and the log says why', async () => {
    const key = await newKey()
    s3.refuses = true
    const response = await upload(0, key, png).finally(() => {
      s3.refuses = false
    })
    expect(response.status).toBe(503)
    expect((await errorOf(response)).message).toBe('The file store refused the request; try again later')
    expect(servers[0]!.logs.map((line) => (JSON.parse(line) as { cause?: string }).cause)).toContainEqual(
      expect.stringContaining('AccessDenied'),
    )
  })

  test('usage recorded while the database is unreachable is written to it later', async () => {
    const key = await newKey()
    const chat = () =>
      fetch(`${servers[0]!.url}/v1/chat/completions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        body: JSON.stringify({ model: 'service-mk1.5', messages: [{ role: 'user', content: 'Hi' }] }),
      })
    const traces = [(await chat()).headers.get('x-trace-id')!]
    await proxies.database.cut()
    traces.push((await chat()).headers.get('x-trace-id')!, (await chat()).headers.get('x-trace-id')!)
    await proxies.database.mend()
    const { sql } = await import('drizzle-orm')
    const known = async () => {
      const list = sql.join(
        traces.map((trace) => sql`${trace}`),
        sql`, `,
      )
      return (await accounts.database.execute(sql`select 1 from usage where trace_id in (${list})`)).length
    }
    await expect.poll(known, { interval: 300 }).toBe(3)
  })

  test.each([
    ['takes no writes', 'set default_transaction_read_only = on', 'reset default_transaction_read_only'],
    ['takes no connections', 'with allow_connections false', 'with allow_connections true'],
  ])('a database that %s costs no usage: requests get 503, and logs quote no client', async (_, refuse, allow) => {
    const name = new URL(postgres!.url).pathname.slice(1)
    const admin = new pg.Client(new URL('/postgres', postgres!.url).href)
    await admin.connect()
    onTestFinished(() => admin.end())
    const ofServers = 'from pg_stat_activity where datname = $1 and application_name <> $2'
    const change = async (how: string) => {
      await admin.query(`alter database ${name} ${how}`)
      // Only what connects from now on finds the change. It waits until they have ended.
      await admin.query(`select pg_terminate_backend(pid, 60000) ${ofServers}`, [name, OPERATOR])
    }
    const key = await newKey()
    const filename = `${randomBytes(8).toString('hex')}.png`
    const complaints = () => servers[0]!.logs.filter((line) => line.includes('Usage records cannot be written')).length
    const before = complaints()
    expect((await upload(0, key, png)).status).toBe(200)
    await change(refuse)
    let trace: string | null
    try {
      // A connection that has just been ended is replaced at the next request.
      await expect
        .poll(async () => (await errorOf(await upload(0, key, png, filename))).message)
        .toBe('The database is refusing requests at the moment; try again later')
      const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
      const body = JSON.stringify({ model: 'service-mk1.5', messages: [{ role: 'user', content: 'Hi' }] })
      const chat = await fetch(`${servers[0]!.url}/v1/chat/completions`, { method: 'POST', headers, body })
      expect(chat.status).toBe(200)
      trace = chat.headers.get('x-trace-id')
      await expect.poll(complaints).toBeGreaterThan(before)
      expect(servers[0]!.logs.join('')).not.toContain(filename)
    } finally {
      await change(allow)
    }
    const { sql } = await import('drizzle-orm')
    const query = sql`select 1 from usage where trace_id = ${trace}`
    await expect.poll(async () => (await accounts.database.execute(query)).length).toBe(1)
    // The next test finds a server that has noticed which of its connections ended.
    await expect.poll(async () => (await upload(0, key, png)).status).toBe(200)
  })

  test('the next start removes objects without a record, and keeps the others', async () => {
    const key = await newKey()
    const id = await idOf(await upload(0, key, png))
    const [mark] = [...s3.objects.keys()].filter((name) => name.startsWith('files/.databases/'))
    for (const name of ['files/gone/file-0000000000000000000000', mark!]) {
      s3.objects.set(name, { bytes: png, modified: new Date(0) })
    }
    const next = await startTestServer({
      environment: {
        DATABASE_URL: postgres!.url,
        LOOKOUT_BLOBS: `s3://lookout/files?endpoint=http://127.0.0.1:${s3.port}&young=60`,
      },
    })
    await expect.poll(() => [...s3.objects.keys()].some((name) => name.includes('/gone/'))).toBe(false)
    await next.close()
    expect((await call(0, key, `/v1/files/${id}/content`)).status).toBe(200)
  })
})

/** What is kept in a blob store, all of it old enough to be removed. */
interface OldStore {
  readonly location: string
  names(): Promise<string[]>
  /** Adds what no server of the test has stored. */
  put(name: string): Promise<void>
  putMark(name: string): Promise<void>
  unmark(): Promise<void>
}

async function oldFolder(): Promise<OldStore> {
  const root = await mkdtemp(join(tmpdir(), 'lookout-blobs-'))
  onTestFinished(() => rm(root, { recursive: true, force: true }))
  return {
    location: root,
    async names() {
      const entries = await readdir(root, { recursive: true, withFileTypes: true })
      const files = entries.filter((entry) => entry.isFile()).map(({ parentPath, name }) => join(parentPath, name))
      for (const file of files) await utimes(file, 0, 0)
      return files.map((file) => relative(root, file)).filter((name) => !/\/lock/.test(name))
    },
    async put(name) {
      const path = join(
        root,
        name.replace(/^[^/]+\/file-/, (start) => `kept/${start.replace('/', '/00/')}`),
      )
      await mkdir(dirname(path), { recursive: true })
      await writeFile(path, 'x')
    },
    async putMark(name) {
      await mkdir(dirname(join(root, '.databases', name)), { recursive: true })
      await writeFile(join(root, '.databases', name), '')
    },
    unmark: () => rm(join(root, '.databases'), { recursive: true }),
  }
}

async function oldBucket(): Promise<OldStore> {
  const s3 = await S3Server.start()
  onTestFinished(() => s3.close())
  return {
    location: `s3://shared?endpoint=http://127.0.0.1:${s3.port}`,
    async names() {
      for (const [name, { bytes }] of s3.objects) s3.objects.set(name, { bytes, modified: new Date(0) })
      return [...s3.objects.keys()]
    },
    put: async (name) => void s3.objects.set(name, { bytes: Buffer.from('x'), modified: new Date(0) }),
    putMark: async (name) =>
      void s3.objects.set(`.databases/${name}`, { bytes: Buffer.from(''), modified: new Date(0) }),
    async unmark() {
      for (const name of s3.objects.keys()) if (name.startsWith('.databases/')) s3.objects.delete(name)
    },
  }
}

test.each([
  ['AWS_REGION', 'eu-west-7'],
  ['AWS_DEFAULT_REGION', 'eu-west-7'],
  ['AWS_CONFIG_FILE', 'eu-west-7'],
  // In this mode the SDK itself asks for a region.
  ['AWS_DEFAULTS_MODE', 'us-east-1'],
])('with %s, the region of a bucket is %s', async (name, region) => {
  const folder = await mkdtemp(join(tmpdir(), 'lookout-region-'))
  const s3 = await S3Server.start()
  onTestFinished(async () => {
    vi.unstubAllEnvs()
    await s3.close()
    await rm(folder, { recursive: true })
  })
  const profile = join(folder, 'config')
  await writeFile(profile, '[default]\nregion = eu-west-7\n')
  for (const other of ['AWS_REGION', 'AWS_DEFAULT_REGION']) vi.stubEnv(other, undefined)
  for (const file of ['AWS_CONFIG_FILE', 'AWS_SHARED_CREDENTIALS_FILE']) vi.stubEnv(file, join(folder, 'none'))
  vi.stubEnv('AWS_EC2_METADATA_DISABLED', 'true')
  vi.stubEnv(name, { AWS_CONFIG_FILE: profile, AWS_DEFAULTS_MODE: 'auto' }[name] ?? region)
  const environment = { LOOKOUT_BLOBS: `s3://there?endpoint=http://127.0.0.1:${s3.port}` }
  const server = await startTestServer({ environment })
  onTestFinished(() => server.close())
  // The first request to it may come after the start.
  await expect.poll(() => s3.region).toBe(region)
})

test('a bucket that falls silent or breaks off is a 503, and a client that pauses is not cut off', async () => {
  const UNAVAILABLE = 'The file store is not responding; try again later'
  const s3 = await S3Server.start()
  onTestFinished(() => s3.close())
  const environment = { LOOKOUT_BLOBS: `s3://slow?endpoint=http://127.0.0.1:${s3.port}&silence=6` }
  const server = await startTestServer({ environment })
  onTestFinished(() => server.close())
  const headers = { authorization: `Bearer ${KEY}` }
  const shapes = await openAsBlob(new URL('../docs/pictures/shapes.png', import.meta.url))
  const upload = (file: Blob = shapes) => {
    const body = new FormData()
    body.append('file', file, 'a.png')
    body.append('purpose', 'vision')
    return fetch(`${server.url}/v1/files`, { method: 'POST', headers, body })
  }
  const { id } = await jsonOf<{ id: string }>(await upload())
  // More than the buffers on the way hold.
  const large = new Blob([shapes, Buffer.alloc(40 * 2 ** 20)])
  const largeFile = await upload(large)
  expect(largeFile.status).toBe(200)
  const { id: largeId } = await jsonOf<{ id: string }>(largeFile)
  const content = (file = id) => fetch(`${server.url}/v1/files/${file}/content`, { headers })
  const paused = await content(largeId)
  s3.isSilent = true
  for (const response of await Promise.all([upload(), content()])) {
    expect(response.status).toBe(503)
    expect((await errorOf(response)).message).toBe(UNAVAILABLE)
  }
  s3.isSilent = false
  const image = { type: 'image_file_id', image_file_id: { file_id: id } }
  for (const how of ['closes', 'falls silent'] as const) {
    s3.breaksOff = how
    const chat = await server.post('/v1/chat/completions', {
      model: 'service-mk1.5',
      messages: [{ role: 'user', content: [image] }],
    })
    expect([chat.status, (await errorOf(chat)).message]).toEqual([503, UNAVAILABLE])
  }
  s3.breaksOff = 'no'
  // Its client has read nothing for longer than the store was silent.
  expect((await paused.arrayBuffer()).byteLength).toBe(large.size)
  expect([(await upload()).status, (await content()).status]).toEqual([200, 200])
})

/** The database for servers that share a blob store with those on the suite's database. */
let otherDatabase: TestDatabase
beforeAll(async () => {
  otherDatabase = await openEmbeddedDatabase()
})
afterAll(() => otherDatabase?.drop())

describe.each([
  ['a folder', oldFolder],
  ['a bucket', oldBucket],
])('in %s', (_, openStore) => {
  const LEFT = 'default/file-0000000000000000000000'
  const REMOVED = 'Removed the bytes of unfinished uploads'
  const SPARED = 'Another database has used this blob store, so unfinished uploads are not removed from it'

  /**
   * Starts a server on the store, uploads a file if asked, and waits for what the log says of the start.
   * @param other whether its database is the other one.
   */
  async function run({ location, names }: OldStore, { other = false, uploads = false, says = '' }): Promise<void> {
    const environment = { LOOKOUT_BLOBS: location, ...(other ? { DATABASE_URL: otherDatabase.url } : {}) }
    const server = await startTestServer({ environment })
    try {
      if (uploads) {
        const body = new FormData()
        body.append('file', await openAsBlob(new URL('../docs/pictures/shapes.png', import.meta.url)), 'a.png')
        body.append('purpose', 'vision')
        const headers = { authorization: `Bearer ${KEY}` }
        expect((await fetch(`${server.url}/v1/files`, { method: 'POST', headers, body })).status).toBe(200)
      }
      const messages = () => server.logs.map((line) => (JSON.parse(line) as { msg: string }).msg)
      if (says !== '') await expect.poll(messages).toContain(says)
      // Before the next one starts, the store has this one's mark.
      await expect.poll(async () => (await names()).some((name) => name.startsWith('.databases/'))).toBe(true)
    } finally {
      await server.close()
    }
  }
  const filesIn = async (store: OldStore) => (await store.names()).filter((name) => /file-/.test(name))

  test('a start removes unfinished uploads, and nothing that Lookout has not written', async () => {
    const store = await openStore()
    const others = ['drafts/report.txt', 'default/notes.txt', 'holiday.jpg', 'backups/old/file-0000000000000000000000']
    for (const name of others) await store.put(name)
    await run(store, { uploads: true })
    await store.put(LEFT)
    expect(await filesIn(store)).toHaveLength(3)
    await run(store, { says: REMOVED })
    expect(await store.names()).toEqual(expect.arrayContaining(others))
    expect(await filesIn(store)).toHaveLength(2)
  })

  test('a start removes nothing if the files are of another database, also where that one starts later', async () => {
    const store = await openStore()
    await run(store, { uploads: true })
    await run(store, { other: true, uploads: true, says: SPARED })
    await store.put(LEFT)
    expect(await filesIn(store)).toHaveLength(3)
    await run(store, { says: SPARED })
    expect(await filesIn(store)).toHaveLength(3)
  })

  test('a first start on files of two databases that left no marks removes nothing', async () => {
    const store = await openStore()
    await run(store, { uploads: true })
    await run(store, { other: true, uploads: true, says: SPARED })
    await store.unmark()
    await run(store, {})
    await run(store, { other: true, says: SPARED })
    expect(await filesIn(store)).toHaveLength(2)
  })

  test('only what a server writes counts as a mark of another database', async () => {
    const store = await openStore()
    await run(store, { uploads: true })
    for (const name of ['.nfs0001', 'a/b']) await store.putMark(name)
    await store.put(LEFT)
    await store.names()
    await run(store, { says: REMOVED })
    expect(await filesIn(store)).toHaveLength(1)
  })

  test('a start removes nothing if the files are older than marks, and the database knows none of them', async () => {
    const store = await openStore()
    await store.put(LEFT)
    await run(store, { says: SPARED, uploads: true })
    await store.names()
    await run(store, { says: SPARED })
    expect(await filesIn(store)).toHaveLength(2)
  })
})

test('queries use exactly the columns that the migrations create', async () => {
  const { getTableConfig } = await import('drizzle-orm/pg-core')
  const { sql } = await import('drizzle-orm')
  const { TABLES } = await import('../src/storage/schema.ts')
  const { inject } = await import('vitest')
  const database = await Database.open({ url: inject('databaseUrl'), directory: '', cacheDirectory: '' })
  try {
    for (const table of Object.values(TABLES)) {
      const { name, columns } = getTableConfig(table)
      const rows = await database.execute<{ name: string; type: string; optional: string }>(sql`
        select column_name as name, case when data_type = 'ARRAY' then 'text[]' else data_type end as type,
          is_nullable as optional from information_schema.columns where table_name = ${name}`)
      const made = rows.map((row) => [row.name, row.type, row.optional === 'YES'])
      const used = columns.map((column) => [column.name, plainType(column.getSQLType()), !column.notNull])
      expect(made.sort(), name).toEqual(used.sort())
    }
  } finally {
    await database.close()
  }
})

function plainType(type: string): string {
  return type.replace(/^numeric.*/, 'numeric')
}

test.skipIf(postgres === null)('an upgrade gives older keys the scope that new ones have without asking', async () => {
  const older = (await createTestDatabase())!
  onTestFinished(() => older.drop())
  const client = new pg.Client(older.url)
  await client.connect()
  await client.query('create table lookout_migrations (name text primary key, at timestamptz default now())')
  const folder = new URL('../src/storage/migrations/', import.meta.url)
  for (const name of (await readdir(folder)).sort().filter((name) => name < '0007')) {
    await client.query(await readFile(new URL(name, folder), 'utf8'))
    await client.query('insert into lookout_migrations (name) values ($1)', [name])
  }
  await client.query("insert into organisations (id) values ('acme')")
  const keys = {
    usual: 'inference,files',
    less: 'inference',
    all: 'inference,files,admin',
    watches: 'watch,inference,files',
  }
  for (const [id, scopes] of Object.entries(keys)) {
    const row = [id, 'acme', '', 'lk-', id, scopes.split(',')]
    await client.query(
      'insert into api_keys (id, organisation_id, name, prefix, hash, scopes) values ($1, $2, $3, $4, $5, $6)',
      row,
    )
  }
  await client.end()
  const database = await Database.open({ url: older.url, directory: '', cacheDirectory: '' })
  const upgraded = await new Accounts(database).listKeys('acme')
  await database.close()
  expect(Object.fromEntries(upgraded.map(({ id, scopes }) => [id, scopes.join()]))).toEqual({
    ...keys,
    usual: 'inference,files,watch',
  })
})

test('a server that ends waits for a database that hangs once for all of its watches', async () => {
  // Its own: those of other tests count towards the limit of the organisation, too.
  const database = await openEmbeddedDatabase()
  onTestFinished(() => database.drop())
  const proxy = await CutProxy.toDatabase(database.url)
  onTestFinished(() => proxy.cut())
  const timeoutMs = 4_000
  const watches = 12
  const server = await startTestServer({
    environment: { DATABASE_URL: through(database.url, proxy.port), LOOKOUT_WATCHES: `${2 * watches}` },
    database: { connectTimeoutMs: timeoutMs, queryTimeoutMs: timeoutMs },
  })
  for (let made = 0; made < watches; made++) {
    expect((await server.post('/v1/watches', WATCH)).status).toBe(201)
  }
  proxy.hang()
  const begin = performance.now()
  await server.close()
  expect(performance.now() - begin).toBeLessThan((watches / 2) * timeoutMs)
})

test('a database that takes long for each statement costs a server none of its watches', async () => {
  const database = await openEmbeddedDatabase()
  onTestFinished(() => database.drop())
  const proxy = await CutProxy.toDatabase(database.url)
  onTestFinished(() => proxy.cut())
  const [watches, leaseMs] = [16, 6_000]
  const start = async (url: string) => {
    const environment = { DATABASE_URL: url, LOOKOUT_WATCHES: `${2 * watches}` }
    const server = await startTestServer({ environment, watches: { leaseMs, beatMs: 100 } })
    onTestFinished(() => server.close())
    return server
  }
  const slow = await start(through(database.url, proxy.port))
  for (let made = 0; made < watches; made++) expect((await slow.post('/v1/watches', WATCH)).status).toBe(201)
  proxy.lateMs = 250
  const other = await start(database.url)
  const own = await Database.open({ url: database.url, directory: '', cacheDirectory: '' })
  onTestFinished(() => own.close())
  const renewedFor = async () => {
    const [row] = await own.execute<{ ms: number }>(sql`
      select extract(epoch from min(leased_until) - min(created_at))::float8 * 1000 as ms from watches`)
    return row!.ms
  }
  await expect.poll(renewedFor).toBeGreaterThan(4 * leaseMs)
  const { data } = await jsonOf<{ data: { reason: string | null }[] }>(await other.get('/v1/watches?limit=100'))
  expect(data.map(({ reason }) => reason)).toEqual(data.map(() => expect.stringContaining('Another server runs it')))
  proxy.lateMs = 0
})
