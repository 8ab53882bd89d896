import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { BatchClient, chatLines, type OutputLine } from './support/batches.ts'
import { S3Server } from './support/s3-server.ts'
import { KEY } from './support/server.ts'
import { createTestDatabase } from './support/services.ts'
import { type SilentServer, startSilentServer } from './support/silent-server.ts'

/** How often a server is killed. Releases are tested with 10. */
const KILLS = Number(process.env.LOOKOUT_TEST_KILLS ?? 2)
const LINES = 240
/** Each takes some turns of the event loop, and some milliseconds. */
const allLines = () => chatLines(LINES, 'line', { max_completion_tokens: 200 })

const POLL = { timeout: 200_000, interval: 5 }

let directory: string
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'lookout-batches-'))
})
afterAll(() => rm(directory, { recursive: true, force: true, maxRetries: 5 }))

async function start(environment: Record<string, string>): Promise<SilentServer> {
  const server = await startSilentServer({
    LOOKOUT_API_KEY: KEY,
    LOOKOUT_LOG_LEVEL: 'info',
    STAND_IN_LEASE_MS: '2000',
    ...environment,
  })
  onTestFinished(() => void server.child.kill('SIGKILL'))
  return server
}

async function kill({ child }: SilentServer): Promise<void> {
  child.kill('SIGKILL')
  await once(child, 'exit')
}

function expectEachOnce(lines: readonly OutputLine[]): void {
  expect(lines.map(({ custom_id }) => custom_id).sort()).toEqual(
    allLines()
      .map(({ custom_id }) => custom_id)
      .sort(),
  )
}

const database = await createTestDatabase()
const title = database === null ? ' (PostgreSQL is not running here)' : ''
afterAll(() => database?.drop())

/** Where a server keeps what it has, and where it runs. */
const BACKENDS = {
  'the embedded database': async () => ({}),
  ...(database === null ? {} : { 'PostgreSQL and S3': withServices }),
}

async function withServices(): Promise<Record<string, string>> {
  const s3 = await S3Server.start()
  onTestFinished(() => s3.close())
  return {
    DATABASE_URL: database!.url,
    LOOKOUT_BLOBS: `s3://lookout/killed?endpoint=http://127.0.0.1:${s3.port}`,
    AWS_ACCESS_KEY_ID: 'test',
    AWS_SECRET_ACCESS_KEY: 'test',
  }
}

test.each(Object.entries(BACKENDS))(
  `a batch whose server is killed ${KILLS} times has each result once, with %s`,
  {
    timeout: 600_000 + KILLS * 30_000,
  },
  async (_, open) => {
    const environment = { LOOKOUT_DATA_DIR: join(directory, 'alone'), ...(await open()) }
    let server = await start(environment)
    // A second try finds those of the first.
    const before = new Set((await new BatchClient(server.url, KEY).openai.files.list()).data.map(({ id }) => id))
    const { id } = await new BatchClient(server.url, KEY).start(allLines())
    const seen: string[] = []
    const look = () => new BatchClient(server.url, KEY).openai.batches.retrieve(id)
    for (let kills = 0; kills < KILLS; kills++) {
      // Spread over the validation of the input, the lines, and the writing of the output.
      const wanted = Math.min(LINES, Math.floor(((kills + Math.random()) * LINES) / KILLS))
      if (kills > 0) await expect.poll(async () => (await look()).request_counts!.completed >= wanted, POLL).toBe(true)
      await delay(randomInt(0, 50))
      await kill(server)
      server = await start(environment)
      const { status, request_counts } = await look()
      seen.push(`${status} ${request_counts!.completed}`)
      if (status === 'completed') break
    }
    const client = new BatchClient(server.url, KEY)
    const batch = await client.ended(id, 300_000)
    console.info(`After each kill: ${seen.join(', ')}`)
    expect(batch).toMatchObject({ status: 'completed', request_counts: { total: LINES, completed: LINES, failed: 0 } })
    const { output, errors } = await client.outputOf(batch)
    expectEachOnce([...output, ...errors])
    const files = (await client.openai.files.list()).data.filter(({ id }) => !before.has(id))
    expect(files.map(({ purpose }) => purpose).sort()).toEqual(['batch', 'batch_output'])
  },
)

describe.skipIf(database === null)(`servers on one PostgreSQL${title}`, () => {
  test('share a batch, take over from one that dies, and leave alone what they cannot read', {
    timeout: 600_000,
  }, async () => {
    const files = { DATABASE_URL: database!.url, LOOKOUT_BLOBS: join(directory, 'files') }
    const place = (name: string) => ({ LOOKOUT_DATA_DIR: join(directory, name) })
    const first = await start({ ...files, ...place('first') })
    const second = await start({ ...files, ...place('second') })
    const other = await start({ DATABASE_URL: database!.url, ...place('other') })
    const client = new BatchClient(second.url, KEY)
    const { id } = await client.start(allLines())
    const ran = (server: SilentServer) => server.logged().split('"path":"/v1/chat/completions"').length - 1
    await expect.poll(() => Math.min(ran(first), ran(second)), { interval: 10 }).toBeGreaterThan(5)
    await kill(first)
    const batch = await client.ended(id, 300_000)
    expect(batch).toMatchObject({ status: 'completed', request_counts: { total: LINES, completed: LINES, failed: 0 } })
    const { output, errors } = await client.outputOf(batch)
    expectEachOnce([...output, ...errors])
    expect(ran(other)).toBe(0)
    await expect.poll(() => other.logged()).toContain('not in the blob store of this server')
  })
})
