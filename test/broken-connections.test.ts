import { randomInt } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Accounts } from '../src/accounts/accounts.ts'
import { Database } from '../src/storage/database.ts'
import { CutProxy } from './support/cut-proxy.ts'
import { S3Server } from './support/s3-server.ts'
import { createTestDatabase, findRedis, through } from './support/services.ts'
import { type SilentServer, startSilentServer } from './support/silent-server.ts'
import { StorageLoad } from './support/storage-load.ts'

/** How often the connections to each of the three are cut. */
const CUTS = Number(process.env.LOOKOUT_TEST_CUTS ?? 3)
const KEYS = 20

const postgres = await createTestDatabase()
const redis = await findRedis()
const missing = [postgres === null && 'PostgreSQL', redis === null && 'Redis'].filter(Boolean).join(' and ')
const title = missing === '' ? '' : ` (${missing} not running here)`

describe.skipIf(missing !== '')(`connections to PostgreSQL, S3 and Redis${title}`, () => {
  let directory: string
  let s3: S3Server
  let proxies: CutProxy[]
  let server: SilentServer
  let load: StorageLoad

  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'lookout-cuts-'))
    s3 = await S3Server.start()
    proxies = await Promise.all([
      CutProxy.toDatabase(postgres!.url),
      CutProxy.start(s3.port),
      CutProxy.start(Number(new URL(redis!).port || 6379), new URL(redis!).hostname),
    ])
    const [database, blobs, counts] = proxies.map(({ port }) => port) as [number, number, number]
    const limit = 1_000_000
    server = await startSilentServer({
      DATABASE_URL: through(postgres!.url, database),
      LOOKOUT_BLOBS: `s3://lookout/files?endpoint=http://127.0.0.1:${blobs}&young=60`,
      REDIS_URL: through(redis!, counts),
      LOOKOUT_RATE_LIMITS: ['chat', 'models', 'file_upload', 'file_list', 'file_content']
        .map((name) => `${name}=${limit}`)
        .join(','),
      LOOKOUT_DATA_DIR: directory,
      LOOKOUT_METRICS_PORT: '0',
      AWS_ACCESS_KEY_ID: 'test',
      AWS_SECRET_ACCESS_KEY: 'test',
    })
    const own = await Database.open({ url: postgres!.url, directory: '', cacheDirectory: '' })
    const accounts = new Accounts(own)
    const organisation = `cuts-${process.pid}-${Date.now()}`
    await accounts.createOrganisation(organisation)
    const made = await Promise.all(Array.from({ length: KEYS }, () => accounts.createKey({ organisation })))
    await own.close()
    load = await StorageLoad.prepare(
      server,
      made.map(({ key }) => key),
    )
  })
  afterAll(async () => {
    server?.child.kill('SIGKILL')
    for (const proxy of proxies ?? []) await proxy.cut()
    await s3?.close()
    await postgres?.drop()
    await rm(directory, { recursive: true, force: true, maxRetries: 5 })
  })

  test(`cut ${CUTS} times each under load, they cost no process and no file`, {
    timeout: 60_000 + CUTS * 90_000,
  }, async () => {
    let deaths = 0
    server.child.once('exit', () => deaths++)
    load.start()
    for (let cut = 0; cut < CUTS * proxies.length && deaths === 0; cut++) {
      const proxy = proxies[cut % proxies.length]!
      await delay(randomInt(100, 500))
      await proxy.cut()
      await delay(randomInt(50, 500))
      await proxy.mend()
      await expect.poll(async () => (await load.upload()).status, { interval: 100 }).toBe(200)
    }
    await load.stop()
    const { rejections, exceptions } = await load.faults()
    console.info(
      `${CUTS} cuts of PostgreSQL, S3 and Redis each: ${deaths} process deaths, ${rejections} unhandled rejections, ` +
        `${exceptions} uncaught exceptions; ${load.kept.size} files kept; answers ${JSON.stringify(load.statuses)}`,
    )
    expect({ deaths, rejections, exceptions }).toEqual({ deaths: 0, rejections: 0, exceptions: 0 })
    expect(Object.keys(load.statuses).filter((kind) => !/ (200|503)$/.test(kind))).toEqual([])
    expect(Object.keys(load.statuses).some((kind) => kind.endsWith(' 503'))).toBe(true)
    expect(await load.missing()).toEqual([])
  })
})
