import type { TestProject } from 'vitest/node'
import { openEmbeddedDatabase } from './embedded-database.ts'
import { S3Server } from './s3-server.ts'
import { createTestDatabase, findRedis } from './services.ts'

declare module 'vitest' {
  interface ProvidedContext {
    databaseUrl: string
    /** Null for the default blob store of a server. */
    blobs: string | null
    redisUrl: string | null
  }
}

/**
 * Opens one database for all servers of the suite, because opening one for each would take most of its time. Tests that
 * need isolation create an organisation of their own. The database is embedded unless LOOKOUT_TEST_BACKENDS is
 * `services`: then the suite runs on PostgreSQL, S3 and Redis.
 */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  return process.env.LOOKOUT_TEST_BACKENDS === 'services' ? useServices(project) : useEmbedded(project)
}

async function useEmbedded(project: TestProject): Promise<() => Promise<void>> {
  const database = await openEmbeddedDatabase()
  project.provide('databaseUrl', database.url)
  project.provide('blobs', null)
  project.provide('redisUrl', null)
  return () => database.drop()
}

async function useServices(project: TestProject): Promise<() => Promise<void>> {
  const [database, redis] = await Promise.all([createTestDatabase(), findRedis()])
  if (database === null || redis === null)
    throw new Error('LOOKOUT_TEST_BACKENDS=services needs PostgreSQL and Redis to be running')
  const s3 = await S3Server.start()
  project.provide('databaseUrl', database.url)
  project.provide('blobs', `s3://lookout/files?endpoint=http://127.0.0.1:${s3.port}`)
  project.provide('redisUrl', redis)
  return async () => {
    await s3.close()
    await database.drop()
  }
}
