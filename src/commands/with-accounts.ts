import { Accounts } from '../accounts/index.ts'
import { openDatabase } from '../state.ts'
import type { Database } from '../storage/index.ts'
import { loadConfig } from './load-config.ts'

/** Whoever waits for it can end it: a sum over years of usage may take its time. */
const QUERY_TIMEOUT_MS = 600_000

/** Does work with the database that the settings name, beside a server that runs on it or without one. */
export async function withDatabase<Result>(work: (database: Database) => Promise<Result>): Promise<Result> {
  const database = await openDatabase(await loadConfig(), QUERY_TIMEOUT_MS)
  try {
    return await work(database)
  } finally {
    await database.close()
  }
}

export function withAccounts<Result>(work: (accounts: Accounts) => Promise<Result>): Promise<Result> {
  return withDatabase((database) => work(new Accounts(database)))
}
