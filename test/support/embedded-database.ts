import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { cacheDirectory } from '../../src/setup/native-library.mjs'
import { EmbeddedDatabase } from '../../src/storage/embedded/embedded-database.ts'

/** An embedded database that servers can be given by its address. */
export interface TestDatabase {
  /** For `DATABASE_URL`. */
  readonly url: string
  close(): Promise<void>
}

/**
 * Opens a database. A server that makes one of its own, with an empty `DATABASE_URL`, takes a second and more of a
 * processor: those of a file may share one.
 */
export async function openEmbeddedDatabase(): Promise<TestDatabase> {
  const directory = await mkdtemp(join(tmpdir(), 'lookout-db-'))
  const database = new EmbeddedDatabase(directory, cacheDirectory())
  await database.ensure()
  return {
    url: `postgres://postgres@${encodeURIComponent(dirname(database.path))}/postgres`,
    close: async () => {
      await database.close()
      await rm(directory, { recursive: true, force: true })
    },
  }
}
