/**
 * The cost of accounts, files and the usage ledger, as ratios within one run: authentication against a bare route, an
 * upload against a plain write to the same disk, a list against its query, and a ledger row against a chat.
 */
import { randomBytes } from 'node:crypto'
import { open, readFile, rm } from 'node:fs/promises'
import { request as httpRequest } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { and, desc, eq, sql } from 'drizzle-orm'
import { Accounts } from '../src/accounts/accounts.ts'
import { Authenticator } from '../src/accounts/authenticator.ts'
import { UsageLedger } from '../src/accounts/usage-ledger.ts'
import { cacheDirectory } from '../src/setup/native-library.mjs'
import { Database } from '../src/storage/database.ts'
import * as tables from '../src/storage/schema.ts'
import { type Benchmark, print } from './support/benchmark.ts'
import { chatsAtOnce } from './support/chat.ts'
import { processorTicks, processTree } from './support/process-tree.ts'
import { requestRate } from './support/request-load.ts'
import { SILENT_SERVICE, startLookout } from './support/server.ts'
import { table } from './support/table.ts'

const MODEL = 'service-mk1.5'
const BARE_FASTIFY = fileURLToPath(new URL('support/bare-fastify.ts', import.meta.url))
const FILE_BYTES = 127 * 2 ** 20
const CHUNK_BYTES = 256 * 1024
const PNG_HEAD = Buffer.from('\x89PNG\r\n\x1a\n', 'latin1')
/** As long as curl's boundary. */
const BOUNDARY = '------------------------d74496d66958873e'
const FILES = 100_000
const PAGE = 10_000
const ROWS = 20_000
const AUTHENTICATIONS = 100_000
const CHATS = 64
const CHAT_TOKENS = 16
const TICK_US = 10_000

export const accounts: Benchmark = {
  summary: 'the cost of keys, files and the usage ledger, against a bare route, a plain write and a query',
  withPeer: false,

  async run({ quick, repetitions }) {
    const runs = repetitions ?? (quick ? 3 : 7)
    const rows: string[][] = []
    const add = (name: string, value: string, beside: string, ratio: number, goal: string) =>
      rows.push([name, value, beside, ratio.toFixed(3), goal])
    {
      await using bare = await startLookout(null, MODEL, { program: BARE_FASTIFY })
      await using server = await startSilent()
      const { key } = await server.newKey()
      const get = (key: string) => `GET /v1/models HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer ${key}\r\n\r\n`
      const ms = quick ? 1_000 : 3_000
      const rates: number[] = []
      const bareRates: number[] = []
      for (let run = 0; run <= runs; run++) {
        const plain = await requestRate(bare.url, get(key), ms)
        const own = await requestRate(server.url, get(key), ms)
        // The first run is a warm-up in which both sides' code is compiled.
        if (run > 0) {
          bareRates.push(plain)
          rates.push(own)
        }
      }
      const [own, plain] = [median(rates), median(bareRates)]
      add(
        '`GET /v1/models` with a key, requests/s',
        own.toFixed(0),
        `${plain.toFixed(0)} of a bare route`,
        own / plain,
        '≥ 0.6',
      )
    }
    {
      await using server = await startSilent()
      const { key } = await server.newKey()
      const each = await authentication(server.database, key, runs)
      rows.push(['authentication of a known key, ms', each.toFixed(4), '', '', '< 0.1'])
      await upload(server.url, key, randomBytes(2 ** 20))
      const bytes = Buffer.concat([await readFile(IMAGE), randomBytes(FILE_BYTES)])
      const before = await memory(server.pid, 'VmRSS')
      const speeds: number[] = []
      const plainSpeeds: number[] = []
      for (let run = 0; run < runs; run++) {
        plainSpeeds.push(await plainWrite(join(tmpdir(), `lookout-bench-write-${process.pid}`), bytes))
        speeds.push(await upload(server.url, key, bytes))
      }
      const grown = ((await memory(server.pid, 'VmHWM')) - before) / 2 ** 20
      const [own, plain] = [median(speeds), median(plainSpeeds)]
      add('upload of 127 MiB, MiB/s', own.toFixed(0), `${plain.toFixed(0)} of a write with fsync`, own / plain, '≥ 0.5')
      rows.push(['peak resident memory above that before the uploads, MiB', grown.toFixed(1), '', '', '< 60'])
    }
    {
      await using server = await startSilent()
      const { organisation, key } = await server.newKey()
      await server.database.execute(sql`
        insert into files (organisation_id, id, bytes, created_at, filename, purpose, content_type)
        select ${organisation}, 'file-' || lpad(n::text, 22, '0'), n, now(), 'picture-' || n || '.png', 'vision', 'image/png'
        from generate_series(1, ${FILES}::integer) as n`)
      const query = () =>
        server.database.use((queries) =>
          queries
            .select()
            .from(tables.files)
            .where(and(eq(tables.files.organisationId, organisation)))
            .orderBy(desc(tables.files.id))
            .limit(PAGE + 1),
        )
      const list = async () => {
        const response = await fetch(`${server.url}/v1/files`, { headers: { authorization: `Bearer ${key}` } })
        const page = (await response.json()) as { data: unknown[]; has_more: boolean }
        if (page.data.length !== PAGE || !page.has_more) throw new Error('The file list is not as expected')
      }
      const times: number[] = []
      const plainTimes: number[] = []
      for (let run = 0; run <= runs; run++) {
        const plain = await timed(query)
        const own = await timed(list)
        if (run > 0) {
          plainTimes.push(plain)
          times.push(own)
        }
      }
      const [own, plain] = [median(times), median(plainTimes)]
      add('list of 10,000 of 100,000 files, ms', own.toFixed(0), `${plain.toFixed(0)} of its query`, own / plain, '≤ 3')

      const cost = await ledgerCost(server.database, server.pid)
      await using engine = await startLookout(null, MODEL)
      const ask = () =>
        chatsAtOnce(
          engine,
          Array.from({ length: CHATS }, () => [{ role: 'user', content: 'Hello' }]),
          CHAT_TOKENS,
        )
      await ask()
      const ticks = await processorTicks(engine.pid)
      await ask()
      const chat = (((await processorTicks(engine.pid)) - ticks) * TICK_US) / CHATS
      add(
        'a ledger row, µs of processor time',
        cost.toFixed(0),
        `${chat.toFixed(0)} of a chat of ${CHAT_TOKENS} tokens`,
        cost / chat,
        '< 0.02',
      )
    }
    print(`### Accounts, files and usage

The service runs with an engine that answers at once, the embedded database, and files in the temporary folder; for the last row, with the shipped model and ${CHATS} concurrent chats. Medians of ${runs} runs, both sides in turn. A ledger row includes the time of all processes that write it to the journal, read it and insert it.

${table(['', 'Lookout', 'compared with', 'ratio', 'goal'], rows)}`)
  },
}

const IMAGE = fileURLToPath(new URL('../docs/pictures/shapes.png', import.meta.url))

/** Starts the service with a silent engine, and opens its database. */
async function startSilent() {
  const server = await startLookout(null, MODEL, {
    program: SILENT_SERVICE,
    environment: { LOOKOUT_RATE_LIMITS: 'models=100000000,file_list=100000' },
  })
  const database = await Database.open({
    url: null,
    directory: join(server.directory, 'database'),
    cacheDirectory: cacheDirectory(),
  })
  return {
    ...server,
    database,
    async newKey() {
      const organisation = `bench-${randomBytes(4).toString('hex')}`
      const accounts = new Accounts(database)
      await accounts.createOrganisation(organisation)
      return { organisation, key: (await accounts.createKey({ organisation })).key }
    },
    async [Symbol.asyncDispose]() {
      await database.close()
      await server[Symbol.asyncDispose]()
    },
  }
}

/** Milliseconds per authentication, including the database query once a second. */
async function authentication(database: Database, key: string, runs: number): Promise<number> {
  const authenticator = new Authenticator(database, [])
  const times: number[] = []
  try {
    for (let run = 0; run <= runs; run++) {
      const started = performance.now()
      for (let n = 0; n < AUTHENTICATIONS; n++) {
        if ((await authenticator.authenticate(key, '127.0.0.1')) === null) throw new Error('The key is unknown')
      }
      if (run > 0) times.push((performance.now() - started) / AUTHENTICATIONS)
    }
  } finally {
    await authenticator.close()
  }
  return median(times)
}

/** MiB per second, from the first byte to the response. */
export function upload(url: string, key: string, bytes: Buffer): Promise<number> {
  const head = Buffer.from(
    `--${BOUNDARY}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nvision\r\n--${BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n`,
  )
  const isImage = bytes.subarray(0, PNG_HEAD.length).equals(PNG_HEAD)
  const image = isImage ? bytes : Buffer.concat([PNG_HEAD, bytes])
  const tail = Buffer.from(`\r\n--${BOUNDARY}--\r\n`)
  const started = performance.now()
  return new Promise((resolve, reject) => {
    const request = httpRequest(`${url}/v1/files`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${key}`,
        'content-type': `multipart/form-data; boundary=${BOUNDARY}`,
        'content-length': head.length + image.length + tail.length,
      },
    })
    request.on('error', reject)
    request.on('response', (response) => {
      const answered = async () => {
        const body = await text(response)
        const seconds = (performance.now() - started) / 1000
        if (response.statusCode !== 200) throw new Error(`The upload failed: ${body}`)
        // Both sides delete their file, so that both write into memory that was just freed.
        const { id } = JSON.parse(body) as { id: string }
        await fetch(`${url}/v1/files/${id}`, { method: 'DELETE', headers: { authorization: `Bearer ${key}` } })
        resolve(image.length / 2 ** 20 / seconds)
      }
      answered().catch(reject)
    })
    for (const piece of [head, image, tail]) request.write(piece)
    request.end()
  })
}

/** MiB per second of a file write with fsync. */
async function plainWrite(path: string, bytes: Buffer): Promise<number> {
  const started = performance.now()
  const file = await open(path, 'w')
  for (let at = 0; at < bytes.length; at += CHUNK_BYTES) await file.write(bytes.subarray(at, at + CHUNK_BYTES))
  await file.sync()
  await file.close()
  const seconds = (performance.now() - started) / 1000
  await rm(path)
  return bytes.length / 2 ** 20 / seconds
}

/** Processor time per row in microseconds: of this process, which writes and reads the journal, and of the database. */
async function ledgerCost(database: Database, owner: number): Promise<number> {
  const directory = join(tmpdir(), `lookout-bench-ledger-${process.pid}`)
  const ledger = await UsageLedger.open(database, directory, { error: fail, warn: fail })
  const databaseTicks = async () => {
    let sum = 0
    for (const pid of await processTree(owner)) if (pid !== owner) sum += await processorTicks(pid)
    return sum
  }
  const before = await databaseTicks()
  const own = process.cpuUsage()
  for (let n = 0; n < ROWS; n++) {
    ledger.record({
      traceId: randomBytes(16).toString('hex'),
      at: new Date().toISOString(),
      organisation: 'bench',
      key: 'key',
      model: MODEL,
      endpoint: 'chat',
      status: 200,
      finish: 'stop',
      promptTokens: 10,
      completionTokens: 10,
      cachedTokens: 0,
      audioTokens: 0,
      pages: 0,
      latencyMs: 10,
      credits: 16.5,
    })
  }
  await ledger.close()
  const { user, system } = process.cpuUsage(own)
  await rm(directory, { recursive: true, force: true })
  return (user + system + ((await databaseTicks()) - before) * TICK_US) / ROWS
}

function fail(details: unknown, message?: string): never {
  throw new Error(`${message}: ${JSON.stringify(details)}`)
}

/** The value of a line of /proc/PID/status, in bytes. */
async function memory(pid: number, line: 'VmRSS' | 'VmHWM'): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8')
  return Number(new RegExp(`^${line}:\\s+(\\d+) kB`, 'm').exec(status)?.[1] ?? 0) * 1024
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const started = performance.now()
  await work()
  return performance.now() - started
}

function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[Math.floor((values.length - 1) / 2)]!
}
