import type { Accounts } from '../../accounts/accounts.ts'
import type { Database } from '../../storage/database.ts'
import { loadConfig } from '../load-config.ts'

/** A sum over years of usage may take long; the user can interrupt the command. */
const QUERY_TIMEOUT_MS = 600_000

/** Runs work on the database of the settings, whether or not a server uses it too. */
export async function withDatabase<Result>(work: (database: Database) => Promise<Result>): Promise<Result> {
  // Loading the database's libraries takes most of a second, which wrong arguments and --help need not wait for.
  const [{ openDatabase }, config] = await Promise.all([import('../../state.ts'), loadConfig()])
  const database = await openDatabase(config, { queryTimeoutMs: QUERY_TIMEOUT_MS })
  try {
    return await work(database)
  } finally {
    await database.close()
  }
}

export async function withAccounts<Result>(work: (accounts: Accounts) => Promise<Result>): Promise<Result> {
  return withDatabase(async (database) => {
    const { Accounts } = await import('../../accounts/accounts.ts')
    return work(new Accounts(database))
  })
}
