import type { SQL } from 'drizzle-orm'
import { drizzle, type NodePgDatabase } from 'drizzle-orm/node-postgres'
import pg from 'pg'
import { ApiError, serviceUnavailable } from '../errors.ts'
import { PathSocket } from './embedded/address.ts'
import { EmbeddedDatabase } from './embedded/embedded-database.ts'
import { migrate } from './migrate.ts'

/** Queries, and `transaction`. */
export type Queries = NodePgDatabase
export type Transaction = Parameters<Parameters<Queries['transaction']>[0]>[0]

export interface DatabaseOptions {
  /** `postgres://...`; null for the embedded database. */
  readonly url: string | null
  /** Where the embedded database is. */
  readonly directory: string
  /** Where an empty embedded database is kept. */
  readonly cacheDirectory: string
}

const CONNECT_TIMEOUT_MS = 5_000
const QUERY_TIMEOUT_MS = 30_000
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

  private constructor(pool: pg.Pool, embedded: EmbeddedDatabase | null) {
    this.#pool = pool
    this.#queries = drizzle(pool)
    this.#embedded = embedded
  }

  /** Connects and brings the schema up to date. @throws Error that says in one line what is wrong. */
  static async open({ url, directory, cacheDirectory }: DatabaseOptions): Promise<Database> {
    const embedded = url === null ? new EmbeddedDatabase(directory, cacheDirectory) : null
    const pool = new pg.Pool({
      ...(embedded
        ? { stream: () => new PathSocket(embedded.path), user: 'postgres', database: 'postgres' }
        : { connectionString: url! }),
      max: embedded ? EMBEDDED_CONNECTIONS : CONNECTIONS,
      connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
      query_timeout: QUERY_TIMEOUT_MS,
      keepAlive: true,
    })
    // A connection that breaks while nobody uses it concerns nobody: the next query opens another.
    pool.on('error', () => {})
    const database = new Database(pool, embedded)
    try {
      await embedded?.ensure()
      await migrate(pool)
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
      return await work(this.#queries)
    } catch (error) {
      if (error instanceof ApiError) throw error
      const code = codeOf(error)
      if (this.#embedded && (code === 'ECONNREFUSED' || code === 'ENOENT')) {
        try {
          await this.#embedded.ensure()
          return await work(this.#queries)
        } catch (again) {
          throw translate(again)
        }
      }
      throw translate(error)
    }
  }

  /** All or nothing. @throws ApiError 503 as `use`. */
  transaction<Result>(work: (transaction: Transaction) => Promise<Result>): Promise<Result> {
    return this.use((queries) => queries.transaction(work))
  }

  async execute<Row extends Record<string, unknown>>(query: SQL): Promise<Row[]> {
    return this.use(async (queries) => (await queries.execute(query)).rows as Row[])
  }

  async close(): Promise<void> {
    await this.#pool.end()
    await this.#embedded?.close()
  }
}

function translate(error: unknown): unknown {
  if (error instanceof ApiError || !isAway(error)) return error
  return serviceUnavailable('The database does not answer; try again later', RETRY_AFTER_S, error)
}

/** Classes 08 (connection), 53 (out of resources), 57P (shut down) and 58 (system), and what the socket says. */
const AWAY_STATE = /^(08|53|57P|58)/
const AWAY_MESSAGE = /connection terminated|timeout exceeded|client was closed|query read timeout|not queryable/i

function isAway(error: unknown): boolean {
  const code = codeOf(error)
  if (typeof code === 'string') return AWAY_STATE.test(code) || /^E[A-Z]+$/.test(code)
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
