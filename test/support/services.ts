import { randomBytes } from 'node:crypto'
import { Redis } from 'ioredis'
import pg from 'pg'

/** The machine's own PostgreSQL and Redis. Tests that need one are skipped, with a note, where it is not running. */
const POSTGRES = process.env.LOOKOUT_TEST_POSTGRES_URL ?? 'postgres://postgres@127.0.0.1:5432/postgres'
const REDIS = process.env.LOOKOUT_TEST_REDIS_URL ?? 'redis://127.0.0.1:6379'

export interface TestDatabase {
  /** For `DATABASE_URL`. */
  readonly url: string
  drop(): Promise<void>
}

/** Creates a database in the machine's PostgreSQL; null where it is not running. */
export async function createTestDatabase(): Promise<TestDatabase | null> {
  const name = `lookout_test_${randomBytes(6).toString('hex')}`
  const admin = async (statement: string) => {
    const client = new pg.Client({ connectionString: POSTGRES, connectionTimeoutMillis: 2_000 })
    try {
      await client.connect()
      await client.query(statement)
    } finally {
      await client.end().catch(() => {})
    }
  }
  try {
    await admin(`create database ${name}`)
  } catch {
    return null
  }
  const url = new URL(POSTGRES)
  url.pathname = `/${name}`
  return { url: url.href, drop: () => admin(`drop database if exists ${name} with (force)`) }
}

/** The URL of the machine's Redis; null where it is not running. */
export async function findRedis(): Promise<string | null> {
  const redis = new Redis(REDIS, { lazyConnect: true, retryStrategy: () => null, connectTimeout: 2_000 })
  redis.on('error', () => {})
  try {
    await redis.connect()
    await redis.ping()
    return REDIS
  } catch {
    return null
  } finally {
    redis.disconnect()
  }
}

/** The URL `address` with its host replaced by a port of this machine. */
export function through(address: string, port: number): string {
  const url = new URL(address)
  url.host = `127.0.0.1:${port}`
  return url.href
}
