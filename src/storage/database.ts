import { Socket } from 'node:net'
import pg from 'pg'
import { ApiError, serviceUnavailable } from '../lib/errors/errors.ts'
import { withTimeout } from '../lib/with-timeout.ts'
import { DrizzleQueryError, drizzle, type NodePgDatabase, type SQL } from './drizzle.ts'
import { PathSocket } from './embedded/address.ts'
import { EmbeddedDatabase, EmbeddedDatabaseError } from './embedded/embedded-database.ts'
import { IDLE_IN_TRANSACTION_MS } from './embedded/session.ts'
import { migrate } from './migrate.ts'
import { isFull, StorageFullError } from './storage-full.ts'

/** Everything except transactions: only `Database.transaction` starts one. */
export type Queries = Omit<NodePgDatabase, 'transaction'>
export type Transaction = Queries

export type DatabaseTimeouts = Pick<DatabaseOptions, 'connectTimeoutMs' | 'queryTimeoutMs'>

export interface DatabaseOptions {
  /** `postgres://...`; null for the embedded database. */
  readonly url: string | null
  /** The folder of the embedded database. */
  readonly directory: string
  /** The folder that caches an empty embedded database. */
  readonly cacheDirectory: string
  /** The embedded database, if its process has already been started. */
  readonly embedded?: EmbeddedDatabase | null
  /** Time limits for a connection and for one statement; short enough for a client's request by default. */
  readonly connectTimeoutMs?: number
  readonly queryTimeoutMs?: number
}

/**
 * When the database hangs, a request gets 503 after one of these. They are enforced by the client: `statement_timeout`
 * needs a server that still works, and PgBouncer rejects it as a startup parameter.
 */
const CONNECT_TIMEOUT_MS = 4_000
const QUERY_TIMEOUT_MS = 4_000
/** Additional time for a statement that writes much: more than ten times what the embedded database takes. */
const MS_PER_BYTE = 1_000 / 2 ** 20
/** Covers all steps of a schema upgrade, and waiting for another server that is doing one. */
const MIGRATION_TIMEOUT_MS = 600_000
/** Time for connections to close cleanly; the database may hang. */
const CLOSE_TIMEOUT_MS = 1_000
/** The embedded database runs one statement at a time, so more connections would gain nothing. */
const EMBEDDED_CONNECTIONS = 3
const CONNECTIONS = 10
const RETRY_AFTER_S = 5
const NOT_CONNECTED = ['ECONNREFUSED', 'ENOENT']
/** Errors of an embedded database's process that was about to end, because the server before this one was killed. */
const CUT_OFF = ['ECONNRESET', 'EPIPE']

/**
 * The database: a PostgreSQL server, or PostgreSQL embedded in a folder of this machine, used the same way. While it is
 * unavailable, every operation fails with 503. It reconnects as soon as the database responds.
 */
export class Database {
  readonly #pool: pg.Pool
  readonly #queries: Queries
  readonly #embedded: EmbeddedDatabase | null
  readonly #sockets: ReadonlySet<Socket>
  readonly #queryTimeoutMs: number

  private constructor(
    pool: pg.Pool,
    queryTimeoutMs: number,
    embedded: EmbeddedDatabase | null,
    sockets: ReadonlySet<Socket>,
  ) {
    this.#pool = pool
    this.#queryTimeoutMs = queryTimeoutMs
    this.#queries = drizzle(pool)
    this.#embedded = embedded
    this.#sockets = sockets
  }

  /** Connects and brings the schema up to date. @throws Error that says in one line what is wrong. */
  static async open(options: DatabaseOptions): Promise<Database> {
    const { url, directory, cacheDirectory } = options
    const embedded = url === null ? (options.embedded ?? new EmbeddedDatabase(directory, cacheDirectory)) : null
    const sockets = new Set<Socket>()
    const connection: pg.ClientConfig = {
      ...(embedded ? { user: 'postgres', database: 'postgres' } : { connectionString: url! }),
      stream: () => {
        const socket = embedded ? new PathSocket(embedded.path) : new Socket()
        sockets.add(socket)
        return socket.once('close', () => sockets.delete(socket))
      },
      connectionTimeoutMillis: options.connectTimeoutMs ?? CONNECT_TIMEOUT_MS,
      keepAlive: true,
    }
    const queryTimeoutMs = options.queryTimeoutMs ?? QUERY_TIMEOUT_MS
    const pool = new pg.Pool({
      ...connection,
      max: embedded ? EMBEDDED_CONNECTIONS : CONNECTIONS,
      query_timeout: queryTimeoutMs,
    })
    // An idle connection that breaks needs no handling: the next query opens another. But the pool listens to idle
    // connections only. When one breaks between two statements of a transaction, its next statement fails, and its
    // 'error' event would end the process if nothing listened.
    pool.on('error', () => {})
    pool.on('connect', (client) => client.on('error', () => {}))
    const database = new Database(pool, queryTimeoutMs, embedded, sockets)
    try {
      await embedded?.ensure()
      const upgrade = () => migrate({ ...connection, query_timeout: MIGRATION_TIMEOUT_MS })
      await database.#begin(upgrade, [...NOT_CONNECTED, ...CUT_OFF])
    } catch (error) {
      await database.close()
      const message =
        error instanceof Error ? error.message || String((error as { code?: string }).code) : String(error)
      throw new Error(url === null ? message : `DATABASE_URL: ${message}`, { cause: error })
    }
    return database
  }

  /**
   * Runs work with the database. Work that could not start because the process of the embedded database had ended is
   * retried; work that has started never is.
   * @throws ApiError 503 when the database is unavailable or full. @throws StatementError for other errors of a statement.
   */
  async use<Result>(work: (queries: Queries) => Promise<Result>): Promise<Result> {
    try {
      return await this.#begin(() => work(this.#queries))
    } catch (error) {
      throw await this.#translated(error)
    }
  }

  async #translated(error: unknown): Promise<unknown> {
    if (error instanceof ApiError) return error
    const shown = withoutValues(error)
    if (!isUnavailable(error)) return shown
    // An embedded database that cannot write its log ends without an error.
    const code = codeOf(error)
    if (isFull(code) || (await this.#embedded?.isDiskFull())) return new StorageFullError('the database', shown)
    const what = REFUSING_STATE.test(code ?? '') ? 'is refusing requests at the moment' : 'is not responding'
    return serviceUnavailable(`The database ${what}; try again later`, RETRY_AFTER_S, shown)
  }

  /**
   * Retries work once when it could not connect because the process of the embedded database had ended.
   * @param codes of errors after which work may be done again.
   */
  async #begin<Result>(work: () => Promise<Result>, codes: readonly string[] = NOT_CONNECTED): Promise<Result> {
    try {
      return await work()
    } catch (error) {
      const code = codeOf(error)
      if (this.#embedded === null || code === undefined || !codes.includes(code)) throw error
      await this.#embedded.ensure()
      return work()
    }
  }

  /**
   * Runs work in a transaction: all or nothing.
   * @param bytes that it writes, if they are many: its statements get more time.
   * @throws ApiError 503 like `use`.
   */
  transaction<Result>(work: (transaction: Transaction) => Promise<Result>, bytes = 0): Promise<Result> {
    const writeMs = Math.ceil(bytes * MS_PER_BYTE)
    const timeoutMs = this.#queryTimeoutMs + writeMs
    // PostgreSQL does not notice for hours that the network has lost a server. Its transaction would keep its locks, and
    // the next one that it waits with would get them.
    const begin = `begin; set local lock_timeout = ${timeoutMs};
      set local idle_in_transaction_session_timeout = ${IDLE_IN_TRANSACTION_MS + writeMs}`
    return this.use(async () => {
      const client = await this.#pool.connect()
      const patient = withTimeLimit(client, timeoutMs)
      try {
        await patient.query({ text: begin })
        const result = await work(drizzle(patient))
        await patient.query({ text: 'commit' })
        client.release()
        return result
      } catch (error) {
        // A connection that broke or hangs is closed, which ends its transaction: a `rollback` would hang as well.
        const usable = !isUnavailable(error) && (await client.query('rollback').catch(() => null)) !== null
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
    await withTimeout(CLOSE_TIMEOUT_MS, ended, undefined)
    for (const socket of this.#sockets) socket.destroy()
    await ended
    await this.#embedded?.close()
  }
}

/** A client with this time limit for statements. Drizzle has no option for it, but passes the driver's options on. */
function withTimeLimit(client: pg.PoolClient, query_timeout: number): pg.PoolClient {
  const limit = { query_timeout }
  const query = (config: pg.QueryConfig, values?: unknown[]) => client.query({ ...config, ...limit }, values)
  return Object.create(client, { query: { value: query } })
}

/** SQLSTATEs of values that no statement can store (22) and of broken constraints (23). Their messages quote values. */
const DATA_STATE = /^2[23]/
const MOST_SQL = 500

/** A statement that failed. Unlike the driver's error and Drizzle's, it quotes no values: clients wrote them. */
class StatementError extends Error {
  override readonly name = 'StatementError'
  /** The SQLSTATE, or the code of a socket's error. */
  readonly code: string | undefined
  readonly sql: string | undefined

  constructor(message: string, code: string | undefined, sql: string | undefined) {
    super(message)
    this.code = code
    this.sql = sql?.slice(0, MOST_SQL)
  }
}

/** Whether the database will never accept the data of a statement. */
export function isDataError(error: unknown): boolean {
  return error instanceof StatementError && DATA_STATE.test(error.code ?? '')
}

/** Drizzle's errors list the values of all parameters, and those of the driver some. */
function withoutValues(error: unknown): unknown {
  const sql = error instanceof DrizzleQueryError ? error.query : undefined
  const cause = error instanceof DrizzleQueryError ? error.cause : error
  if (sql === undefined && !(cause instanceof pg.DatabaseError)) return error
  const code = codeOf(cause)
  const message =
    code !== undefined && DATA_STATE.test(code) ? 'The database rejected values' : (cause as Error | undefined)?.message
  return new StatementError(message || 'The statement failed', code, sql)
}

/** SQLSTATEs of connection errors (08), deadlocks (40), lack of resources (53), shutdown (57P), system errors (58) and timeouts. */
const UNAVAILABLE_STATE = /^(08|40|53|57P|58|57014|25P03)/
/**
 * SQLSTATEs of a database that is read-only (25006), refuses the login (28), does not exist (3D000), denies permission
 * (42501), or gives no connection or lock (55): while it fails over, is restored or upgraded.
 */
const REFUSING_STATE = /^(25006|28|3D000|42501|55)/
/** Codes of socket errors, e.g. `ECONNREFUSED`; Node's own start with `ERR_`. */
const UNAVAILABLE_CODE = /^E(?!RR_)[A-Z_]+$/
const UNAVAILABLE_MESSAGE =
  /connection terminated|timeout exceeded|timeout expired|client was closed|query read timeout|not queryable/i

function isUnavailable(error: unknown): boolean {
  if (error instanceof EmbeddedDatabaseError) return true
  const code = codeOf(error)
  if (typeof code === 'string') {
    return UNAVAILABLE_STATE.test(code) || REFUSING_STATE.test(code) || UNAVAILABLE_CODE.test(code)
  }
  const causes = [error, error instanceof Error ? error.cause : null]
  return causes.some((cause) => cause instanceof Error && UNAVAILABLE_MESSAGE.test(cause.message))
}

/** The code of the error or of its cause: Drizzle wraps the errors of the driver. */
function codeOf(error: unknown): string | undefined {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    if ('code' in cause && typeof cause.code === 'string') return cause.code
    if (cause instanceof AggregateError && cause.errors[0] instanceof Error) return codeOf(cause.errors[0])
  }
  return undefined
}
