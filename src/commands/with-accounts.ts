import { Accounts } from '../accounts/index.ts'
import { openDatabase } from '../state.ts'
import type { Database } from '../storage/index.ts'
import { loadConfig } from './load-config.ts'

/** Does work with the database that the settings name, beside a server that runs on it or without one. */
export async function withDatabase<Result>(work: (database: Database) => Promise<Result>): Promise<Result> {
  const database = await openDatabase(await loadConfig())
  try {
    return await work(database)
  } finally {
    await database.close()
  }
}

export function withAccounts<Result>(work: (accounts: Accounts) => Promise<Result>): Promise<Result> {
  return withDatabase((database) => work(new Accounts(database)))
}
