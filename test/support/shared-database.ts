import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { TestProject } from 'vitest/node'
import { cacheDirectory } from '../../scripts/setup/native-library.mjs'
import { EmbeddedDatabase } from '../../src/storage/embedded/embedded-database.ts'

declare module 'vitest' {
  interface ProvidedContext {
    databaseUrl: string
  }
}

/**
 * One database for all servers of the suite: opening one for each would take most of its time. Tests that need to be
 * alone make an organisation of their own. `LOOKOUT_TEST_DATABASE_URL` names a PostgreSQL to use in its place.
 */
export default async function setup(project: TestProject): Promise<(() => Promise<void>) | undefined> {
  const url = process.env.LOOKOUT_TEST_DATABASE_URL
  if (url) {
    project.provide('databaseUrl', url)
    return undefined
  }
  const directory = await mkdtemp(join(tmpdir(), 'lookout-db-'))
  const database = new EmbeddedDatabase(directory, cacheDirectory())
  await database.ensure()
  project.provide('databaseUrl', `postgres://postgres@${encodeURIComponent(dirname(database.path))}/postgres`)
  return async () => {
    await database.close()
    await rm(directory, { recursive: true, force: true })
  }
}
