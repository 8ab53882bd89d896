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
import type { EmbeddedDatabase } from './storage/embedded/embedded-database.ts'
import { Database, type DatabaseOptions, DraftFolder, openBlobs } from './storage/index.ts'

/** The state that outlives the server: accounts, files and usage, in the configured database and blob store. */
export interface State {
  readonly keys: Authenticator
  readonly files: Files
  readonly ledger: UsageLedger
  readonly budgets: Budgets
  /** A folder for media that are being decoded. The next start removes what a crash leaves in it. */
  readonly mediaDirectory: string
  /** Null when the server has no rate limits. */
  readonly rateLimits: RateLimits | null
  /**
   * Creates a key if the database has none. The key cannot be shown again, so call this when it can be shown.
   * @returns the key; null when there is a key already, or the configuration sets one.
   */
  createFirstKey(): Promise<string | null>
  close(): Promise<void>
}

/**
 * @param embedded the embedded database, where its process has been started already.
 * @throws Error that says in one line what failed to open. Nothing is left open in that case.
 */
export async function openState(
  config: Config,
  logger: Logger,
  { clock, embedded = null }: { readonly clock?: Clock | undefined; readonly embedded?: EmbeddedDatabase | null } = {},
): Promise<State> {
  await using opened = new AsyncDisposableStack()
  const database = await openDatabase(config, { embedded })
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
  const sweeping = files
    .sweep()
    .catch((error: unknown) => logger.warn({ err: error }, 'The bytes of unfinished uploads could not be removed'))
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

export function openDatabase(
  config: Config,
  options: Pick<DatabaseOptions, 'queryTimeoutMs' | 'embedded'> = {},
): Promise<Database> {
  return Database.open({
    url: config.databaseUrl,
    directory: join(config.dataDirectory, 'database'),
    cacheDirectory: config.cacheDirectory ?? cacheDirectory(),
    ...options,
  })
}
