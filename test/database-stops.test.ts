import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Accounts } from '../src/accounts/accounts.ts'
import { Database } from '../src/storage/database.ts'
import { OwnPostgres } from './support/own-postgres.ts'
import { type SilentServer, startSilentServer } from './support/silent-server.ts'
import { StorageLoad } from './support/storage-load.ts'

/** How often PostgreSQL is stopped. Releases are tested with 20. */
const STOPS = Number(process.env.LOOKOUT_TEST_STOPS ?? 3)
const KEYS = 40

const programs = await OwnPostgres.find()
const title = programs === null ? ' (PostgreSQL’s initdb and pg_ctl are not installed here)' : ''

describe.skipIf(programs === null)(`with a PostgreSQL of its own${title}`, () => {
  let directory: string
  let postgres: OwnPostgres
  let server: SilentServer
  let load: StorageLoad

  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'lookout-stops-'))
    postgres = await OwnPostgres.start(programs!)
    server = await startSilentServer({
      DATABASE_URL: postgres.url,
      LOOKOUT_DATA_DIR: directory,
      LOOKOUT_METRICS_PORT: '0',
    })
    const database = await Database.open({ url: postgres.url, directory: '', cacheDirectory: '' })
    const accounts = new Accounts(database)
    await accounts.createOrganisation('stops')
    const made = await Promise.all(Array.from({ length: KEYS }, () => accounts.createKey({ organisation: 'stops' })))
    await database.close()
    load = await StorageLoad.prepare(
      server,
      made.map(({ key }) => key),
    )
  })
  afterAll(async () => {
    server?.child.kill('SIGKILL')
    await postgres?.remove()
    await rm(directory, { recursive: true, force: true, maxRetries: 5 })
  })

  const uploads = async () => (await load.upload()).status

  test(`stopped ${STOPS} times under load, it costs no process and no file: requests get 503 meanwhile`, {
    timeout: 60_000 + STOPS * 30_000,
  }, async () => {
    let deaths = 0
    server.child.once('exit', () => deaths++)
    load.start()
    /** Waits until the load has had one more reply of this kind. */
    const another = async (kind: RegExp) => {
      const count = () => {
        const counted = Object.entries(load.statuses).filter(([name]) => kind.test(name))
        return counted.reduce((sum, [, times]) => sum + times, 0)
      }
      const before = count()
      await expect.poll(count, { interval: 10 }).toBeGreaterThan(before)
    }
    for (let stop = 0; stop < STOPS && deaths === 0; stop++) {
      await another(/^upload 200$/)
      await delay(randomInt(0, 600))
      await postgres.stop()
      await another(/ 503$/)
      await delay(randomInt(0, 400))
      await postgres.start()
      await expect.poll(uploads, { interval: 100 }).toBe(200)
    }
    await load.stop()

    const { rejections, exceptions } = await load.faults()
    console.info(
      `${STOPS} immediate stops: ${deaths} process deaths, ${rejections} unhandled rejections, ${exceptions} uncaught ` +
        `exceptions; ${load.kept.size} files kept; answers ${JSON.stringify(load.statuses)}`,
    )
    expect({ deaths, rejections, exceptions }).toEqual({ deaths: 0, rejections: 0, exceptions: 0 })
    expect(Object.keys(load.statuses).filter((kind) => !/ (200|503)$/.test(kind))).toEqual([])
    expect(load.statuses['upload 200']).toBeGreaterThanOrEqual(STOPS)
    expect(Object.keys(load.statuses).some((kind) => kind.endsWith(' 503'))).toBe(true)
    expect(await load.missing()).toEqual([])
  })

  test.skipIf(process.platform !== 'linux')(
    'that hangs, it costs an upload five seconds, and a chat with a known key nothing',
    async () => {
      // From here on the server has every key in its cache.
      for (let n = 0; n < KEYS * 16; n++) expect((await load.call('/v1/models')).status).toBe(200)
      await postgres.halt()
      const hung = performance.now()
      try {
        for (let round = 0; round < 2; round++) {
          const answers = await Promise.all(Array.from({ length: 25 }, () => load.upload()))
          const bodies = await Promise.all(answers.map((answer) => answer.json()))
          expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([503]))
          expect(Number(answers[0]!.headers.get('retry-after'))).toBeGreaterThan(0)
          expect(bodies[0]).toEqual({
            error: {
              message: 'The database is not responding; try again later',
              type: 'server_error',
              param: null,
              code: null,
            },
          })
        }
        // By now the cached key is past its normal lifetime, and is still accepted.
        expect(performance.now() - hung).toBeGreaterThan(3_000)
        let hasAnswered = false
        const upload = load.upload().finally(() => {
          hasAnswered = true
        })
        // A chat that waited for the database would take as long as the upload does.
        let chats = 0
        for (; !hasAnswered; chats++) expect((await load.chat()).status).toBe(200)
        expect((await upload).status).toBe(503)
        expect(chats).toBeGreaterThan(1)
      } finally {
        await postgres.resume()
      }
      await expect.poll(uploads, { interval: 100 }).toBe(200)
    },
  )

  test.skipIf(process.platform !== 'linux')('that hangs, it does not keep the server from shutting down', async () => {
    await postgres.halt()
    try {
      const exit = once(server.child, 'exit')
      server.child.kill('SIGTERM')
      expect(await exit).toEqual([0, null])
    } finally {
      await postgres.resume()
    }
  })
})
