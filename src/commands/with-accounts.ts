import { Accounts } from '../accounts/index.ts'
import { readConfig } from '../config/config.ts'
import { openDatabase } from '../state.ts'
import type { Database } from '../storage/index.ts'

/** Does work with the database that the settings name, beside a server that runs on it or without one. */
export async function withDatabase<Result>(work: (database: Database) => Promise<Result>): Promise<Result> {
  const database = await openDatabase(readConfig(process.env))
  try {
    return await work(database)
  } finally {
    await database.close()
  }
}

export function withAccounts<Result>(work: (accounts: Accounts) => Promise<Result>): Promise<Result> {
  return withDatabase((database) => work(new Accounts(database)))
}
