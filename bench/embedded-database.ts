/**
 * The embedded database behind its socket: how many rows and small queries several connections get through, and whether
 * each gets its own answers. Beside ours, if it is installed, the server of `@electric-sql/pglite-socket` over the same
 * PGlite:
 *
 *     npm install --no-save --legacy-peer-deps @electric-sql/pglite-socket@0.2.17
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { DATABASE_OPTIONS } from '../src/lib/guarded/memory.ts'
import { cacheDirectory } from '../src/setup/native-library.mjs'
import { PathSocket } from '../src/storage/embedded/address.ts'
import { EmbeddedDatabase } from '../src/storage/embedded/embedded-database.ts'
import { type Benchmark, print } from './support/benchmark.ts'
import { median, percentile } from './support/statistics.ts'
import { table } from './support/table.ts'

const CONNECTIONS = [3, 10, 20]
const SECONDS = 2
const ANSWER_MS = 5_000

export const embeddedDatabase: Benchmark = {
  summary: 'rows and small queries per second of several connections to the embedded database, and their answers',
  withPeer: false,

  async run({ quick, repetitions }) {
    const runs = repetitions ?? (quick ? 2 : 5)
    const rows: string[][] = []
    await using stack = new AsyncDisposableStack()
    const servers = [stack.use(await openOurs())]
    const library = await openLibrary()
    if (library !== null) servers.push(stack.use(library))
    for (const connections of CONNECTIONS) {
      const measured = servers.map(() => ({ rows: [] as number[], queries: [] as number[], slow: [] as number[] }))
      for (let run = 0; run < runs; run++) {
        for (const [index, server] of servers.entries()) {
          const { rows, queries, slow } = measured[index]!
          const clients = await Promise.all(Array.from({ length: connections }, () => server.connect()))
          const inserts = await timesOf(clients, (client) =>
            client.query('insert into written (text) values ($1)', ['x'.repeat(100)]),
          )
          const selects = await timesOf(clients, (client) => client.query('select $1::int as one', [1]))
          rows.push(inserts.length / SECONDS)
          queries.push(selects.length / SECONDS)
          slow.push(percentile(selects, 0.99))
          for (const client of clients) await client.end()
        }
      }
      for (const [index, { rows: inserted, queries, slow }] of measured.entries()) {
        const figures = [median(inserted).toFixed(0), median(queries).toFixed(0), median(slow).toFixed(1)]
        rows.push([servers[index]!.name, String(connections), ...figures])
      }
    }
    const answers: string[][] = []
    for (const server of servers) answers.push([server.name, ...(await checkAnswers(server))])
    print(`### Connections to the embedded database

Medians of ${runs} runs of ${SECONDS} s, the servers in turn.

${table(['', 'connections', 'rows/s', 'queries/s', 'p99 of a query, ms'], rows)}

Ten connections for ${SECONDS} s, with queries, statements that fail, and transactions that are rolled back:

${table(['', 'right answers', 'answers of another connection', 'errors not reported', 'connections broken or without an answer'], answers)}`)
  },
}

interface Server extends AsyncDisposable {
  readonly name: string
  connect(): Promise<pg.Client>
}

async function openOurs(): Promise<Server> {
  const directory = await mkdtemp(join(tmpdir(), 'lookout-bench-'))
  const database = new EmbeddedDatabase(directory, cacheDirectory())
  await database.ensure()
  return prepare('Lookout', directory, database.path, () => database.close())
}

/** Null where the library is not installed. */
async function openLibrary(): Promise<Server | null> {
  try {
    import.meta.resolve('@electric-sql/pglite-socket')
  } catch {
    return null
  }
  const directory = await mkdtemp(join(tmpdir(), 'lookout-bench-'))
  const path = join(directory, '.s.PGSQL.5432')
  const program = fileURLToPath(new URL('support/pglite-socket-server.ts', import.meta.url))
  const child = fork(program, [join(directory, 'pgdata'), path], { execArgv: [...DATABASE_OPTIONS], stdio: 'pipe' })
  await once(child, 'message')
  return prepare('pglite-socket', directory, path, async () => {
    child.disconnect()
    await once(child, 'exit')
  })
}

async function prepare(name: string, directory: string, path: string, close: () => Promise<unknown>): Promise<Server> {
  const connect = async () => {
    const client = new pg.Client({ user: 'postgres', database: 'postgres', stream: () => new PathSocket(path) })
    client.on('error', () => {})
    await client.connect()
    return client
  }
  const client = await connect()
  await client.query('create table written (text text)')
  await client.query('create table keyed (key text primary key)')
  await client.end()
  const dispose = async () => {
    await close()
    await rm(directory, { recursive: true, force: true, maxRetries: 5 })
  }
  return { name, connect, [Symbol.asyncDispose]: dispose }
}

/** Milliseconds of each call that the clients got through. */
async function timesOf(
  clients: readonly pg.Client[],
  call: (client: pg.Client) => Promise<unknown>,
): Promise<number[]> {
  const times: number[] = []
  const end = performance.now() + SECONDS * 1000
  const repeat = async (client: pg.Client) => {
    for (let now = performance.now(); now < end; now = performance.now()) {
      await call(client)
      times.push(performance.now() - now)
    }
  }
  await Promise.all(clients.map(repeat))
  return times
}

/** @returns how many answers were right, another connection's, or missing; and the connections that were lost. */
async function checkAnswers(server: Server): Promise<string[]> {
  const clients = await Promise.all(Array.from({ length: 10 }, () => server.connect()))
  const end = performance.now() + SECONDS * 1000
  let [right, foreign, silent, broken] = [0, 0, 0, 0]
  const work = async (client: pg.Client, name: string) => {
    for (let n = 0; performance.now() < end; n++) {
      const mark = `${name}-${n}`
      const selected = await client.query('select $1::text as mark', [mark])
      if (selected.rows[0]?.mark === mark) right++
      else foreign++
      const failed = await client.query('select 1 / $1::int', [0]).catch((error: pg.DatabaseError) => error.code)
      if (failed === '22012') right++
      else silent++
      await client.query('begin')
      await client.query('insert into keyed values ($1)', [mark])
      const again = await client.query('insert into keyed values ($1)', [mark]).catch(({ code }) => code)
      if (again === '23505') right++
      else silent++
      await client.query('rollback')
    }
  }
  await Promise.all(
    clients.map(async (client, index) => {
      const late = delay(SECONDS * 1000 + ANSWER_MS).then(() => Promise.reject(new Error('No answer')))
      await Promise.race([work(client, String(index)), late]).catch(() => broken++)
      await Promise.race([client.end(), delay(ANSWER_MS)])
    }),
  )
  return [right, foreign, silent, broken].map(String)
}
