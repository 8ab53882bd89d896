import { join } from 'node:path'
import type { Logger } from 'pino'
import {
  Accounts,
  Authenticator,
  Budgets,
  type Clock,
  openRateLimits,
  type RateLimits,
  UsageLedger,
} from './accounts/index.ts'
import type { Config } from './config/config.ts'
import { Files } from './files/index.ts'
import { cacheDirectory } from './setup/native-library.mjs'
import { Database, DraftFolder, openBlobs } from './storage/index.ts'

/** What a server knows beyond its models: accounts, files and usage, on the configured database and blob store. */
export interface State {
  readonly keys: Authenticator
  readonly files: Files
  readonly ledger: UsageLedger
  readonly budgets: Budgets
  /** An empty folder for media that is being decoded; what a crash leaves in it, the next start removes. */
  readonly mediaDirectory: string
  /** Null for a server without limits. */
  readonly rateLimits: RateLimits | null
  /**
   * Makes a key for a database without any. It is never told again, so it is made when somebody can be told.
   * @returns null when there is one, or the configuration fixes one.
   */
  createFirstKey(): Promise<string | null>
  close(): Promise<void>
}

/** @throws Error that says in one line what does not open; nothing is left open then. */
export async function openState(config: Config, logger: Logger, clock?: Clock): Promise<State> {
  await using opened = new AsyncDisposableStack()
  const database = await openDatabase(config)
  opened.defer(() => database.close())
  const blobs = await openBlobs(config.blobs, join(config.dataDirectory, 'spool'))
  opened.defer(() => blobs.close())

  const mediaDirectory = join(config.dataDirectory, 'media')
  const drafts = await DraftFolder.open(mediaDirectory)
  opened.defer(async () => drafts.close())

  const accounts = new Accounts(database)
  if (config.apiKey !== null) await accounts.ensureFirstOrganisation()
  const keys = new Authenticator(database, config.apiKey, clock)
  opened.defer(() => keys.close())
  const ledger = await UsageLedger.open(database, join(config.dataDirectory, 'ledger'), logger)
  opened.defer(() => ledger.close())

  const rateLimits = config.rateLimits && (await openRateLimits(config.redisUrl, config.rateLimits, clock))
  opened.defer(async () => rateLimits?.close())

  const files = new Files({ database, blobs, logger })
  const sweeping = files.sweep().catch((error: unknown) => logger.warn({ err: error }, 'Files were not swept'))
  opened.defer(async () => void (await sweeping))
  const resources = opened.move()
  return {
    keys,
    files,
    ledger,
    budgets: new Budgets(database),
    rateLimits,
    mediaDirectory,
    createFirstKey: async () => (config.apiKey === null ? accounts.createFirstKey() : null),
    close: () => resources.disposeAsync(),
  }
}

export function openDatabase(config: Config, queryTimeoutMs?: number): Promise<Database> {
  return Database.open({
    url: config.databaseUrl,
    directory: join(config.dataDirectory, 'database'),
    cacheDirectory: config.cacheDirectory ?? cacheDirectory(),
    ...(queryTimeoutMs === undefined ? {} : { queryTimeoutMs }),
  })
}
