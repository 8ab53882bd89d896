import { Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import type { SQL } from 'drizzle-orm'
import { drizzle, type NodePgDatabase } from 'drizzle-orm/node-postgres'
import pg from 'pg'
import { ApiError, serviceUnavailable } from '../lib/errors.ts'
import { PathSocket } from './embedded/address.ts'
import { EmbeddedDatabase } from './embedded/embedded-database.ts'
import { migrate } from './migrate.ts'

/** Transactions are begun by `Database.transaction` only. */
export type Queries = Omit<NodePgDatabase, 'transaction'>
export type Transaction = Queries

export interface DatabaseOptions {
  /** `postgres://...`; null for the embedded database. */
  readonly url: string | null
  /** Where the embedded database is. */
  readonly directory: string
  /** Where an empty embedded database is kept. */
  readonly cacheDirectory: string
  /** Time that one statement may take, in milliseconds; by default what a client's request can wait. */
  readonly queryTimeoutMs?: number
}

/**
 * A request whose database hangs is answered 503 after one of these. The limits are the client's own: `statement_timeout`
 * would need a server that still runs, and PgBouncer refuses it as a startup parameter.
 */
const CONNECT_TIMEOUT_MS = 4_000
const QUERY_TIMEOUT_MS = 4_000
/** For all steps of an upgrade of the schema, and for the server that does them before this one. */
const MIGRATION_TIMEOUT_MS = 600_000
/** Time for connections to say goodbye, to a server that may hang. */
const CLOSE_TIMEOUT_MS = 1_000
/** The embedded database does one thing at a time; more connections only wait in another place. */
const EMBEDDED_CONNECTIONS = 3
const CONNECTIONS = 10
const RETRY_AFTER_S = 5

/**
 * The database: PostgreSQL at an address, or the same in a folder of this machine. Both are spoken to in one way. What it
 * is asked while it is away fails with 503; it is connected again as soon as it answers.
 */
export class Database {
  readonly #pool: pg.Pool
  readonly #queries: Queries
  readonly #embedded: EmbeddedDatabase | null
  readonly #sockets: ReadonlySet<Socket>

  private constructor(pool: pg.Pool, embedded: EmbeddedDatabase | null, sockets: ReadonlySet<Socket>) {
    this.#pool = pool
    this.#queries = drizzle(pool)
    this.#embedded = embedded
    this.#sockets = sockets
  }

  /** Connects and brings the schema up to date. @throws Error that says in one line what is wrong. */
  static async open(options: DatabaseOptions): Promise<Database> {
    const { url, directory, cacheDirectory } = options
    const embedded = url === null ? new EmbeddedDatabase(directory, cacheDirectory) : null
    const sockets = new Set<Socket>()
    const connection: pg.ClientConfig = {
      ...(embedded ? { user: 'postgres', database: 'postgres' } : { connectionString: url! }),
      stream: () => {
        const socket = embedded ? new PathSocket(embedded.path) : new Socket()
        sockets.add(socket)
        return socket.once('close', () => sockets.delete(socket))
      },
      connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
      keepAlive: true,
    }
    const pool = new pg.Pool({
      ...connection,
      max: embedded ? EMBEDDED_CONNECTIONS : CONNECTIONS,
      query_timeout: options.queryTimeoutMs ?? QUERY_TIMEOUT_MS,
    })
    // A connection that breaks while nobody uses it concerns nobody: the next query opens another. The pool listens to
    // idle connections only; one that breaks between two statements of a transaction has its next statement rejected, and
    // its 'error' event, if nobody heard it, would end the process.
    pool.on('error', () => {})
    pool.on('connect', (client) => client.on('error', () => {}))
    const database = new Database(pool, embedded, sockets)
    try {
      await embedded?.ensure()
      await database.#begin(() => migrate({ ...connection, query_timeout: MIGRATION_TIMEOUT_MS }))
    } catch (error) {
      await database.close()
      const message =
        error instanceof Error ? error.message || String((error as { code?: string }).code) : String(error)
      throw new Error(url === null ? message : `DATABASE_URL: ${message}`, { cause: error })
    }
    return database
  }

  /**
   * Does work with the database. Work that could not be begun because an embedded database's process has ended is begun
   * again; work that was begun never is.
   * @throws ApiError 503 when the database is away or full.
   */
  async use<Result>(work: (queries: Queries) => Promise<Result>): Promise<Result> {
    try {
      return await this.#begin(() => work(this.#queries))
    } catch (error) {
      throw translate(error)
    }
  }

  /** Begins work again when the embedded database's process ended before it had begun: between two clients, or by a crash. */
  async #begin<Result>(work: () => Promise<Result>): Promise<Result> {
    try {
      return await work()
    } catch (error) {
      const code = codeOf(error)
      if (this.#embedded === null || (code !== 'ECONNREFUSED' && code !== 'ENOENT')) throw error
      await this.#embedded.ensure()
      return work()
    }
  }

  /** All or nothing. @throws ApiError 503 as `use`. */
  transaction<Result>(work: (transaction: Transaction) => Promise<Result>): Promise<Result> {
    return this.use(async () => {
      const client = await this.#pool.connect()
      try {
        await client.query('begin')
        const result = await work(drizzle(client))
        await client.query('commit')
        client.release()
        return result
      } catch (error) {
        // A connection that broke or hangs is closed, and its transaction ends with it: a `rollback` would hang as well.
        const usable = !isAway(error) && (await succeeds(client.query('rollback')))
        client.release(!usable)
        throw error
      }
    })
  }

  async execute<Row extends Record<string, unknown>>(query: SQL): Promise<Row[]> {
    return this.use(async (queries) => (await queries.execute(query)).rows as Row[])
  }

  async close(): Promise<void> {
    const ended = this.#pool.end()
    const waiting = new AbortController()
    const late = delay(CLOSE_TIMEOUT_MS, undefined, { signal: waiting.signal }).catch(() => {})
    await Promise.race([ended, late])
    waiting.abort()
    for (const socket of this.#sockets) socket.destroy()
    await ended
    await this.#embedded?.close()
  }
}

function succeeds(work: Promise<unknown>): Promise<boolean> {
  return work.then(
    () => true,
    () => false,
  )
}

function translate(error: unknown): unknown {
  if (error instanceof ApiError || !isAway(error)) return error
  return serviceUnavailable('The database does not answer; try again later', RETRY_AFTER_S, error)
}

/** Classes 08 (connection), 53 (out of resources), 57P (shut down), 58 (system), timeouts that the server sets, */
const AWAY_STATE = /^(08|53|57P|58|57014|25P03)/
/** what the system says of sockets, and what pg says. */
const AWAY_CODE = /^E(?!RR_)[A-Z_]+$/
const AWAY_MESSAGE =
  /connection terminated|timeout exceeded|timeout expired|client was closed|query read timeout|not queryable/i

function isAway(error: unknown): boolean {
  const code = codeOf(error)
  if (typeof code === 'string') return AWAY_STATE.test(code) || AWAY_CODE.test(code)
  const causes = [error, error instanceof Error ? error.cause : null]
  return causes.some((cause) => cause instanceof Error && AWAY_MESSAGE.test(cause.message))
}

/** Of the error or what caused it: Drizzle wraps the driver's errors. */
function codeOf(error: unknown): string | undefined {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    if ('code' in cause && typeof cause.code === 'string') return cause.code
    if (cause instanceof AggregateError && cause.errors[0] instanceof Error) return codeOf(cause.errors[0])
  }
  return undefined
}
