import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { cacheDirectory } from '../../src/setup/native-library.mjs'
import { EmbeddedDatabase } from '../../src/storage/embedded/embedded-database.ts'
import type { TestDatabase } from './services.ts'

/**
 * Opens an embedded database that servers can be given by its address. A server that makes one of its own, with an empty
 * `DATABASE_URL`, takes a second and more of a processor: those of a file may share one.
 */
export async function openEmbeddedDatabase(): Promise<TestDatabase> {
  const directory = await mkdtemp(join(tmpdir(), 'lookout-db-'))
  const database = new EmbeddedDatabase(directory, cacheDirectory())
  await database.ensure()
  return {
    url: `postgres://postgres@${encodeURIComponent(dirname(database.path))}/postgres`,
    drop: async () => {
      await database.close()
      await rm(directory, { recursive: true, force: true })
    },
  }
}
