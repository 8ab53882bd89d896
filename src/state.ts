import { join } from 'node:path'
import type { Logger } from 'pino'
import { Accounts } from './accounts/accounts.ts'
import { Authenticator } from './accounts/authenticator.ts'
import { Budgets } from './accounts/budgets.ts'
import { openRateLimits } from './accounts/open-rate-limits.ts'
import { CONFIGURED_KEY, STUDIO_KEY } from './accounts/principal.ts'
import type { Clock, RateLimits } from './accounts/rate-limits.ts'
import { openStudioKey } from './accounts/studio-key.ts'
import { UsageLedger } from './accounts/usage-ledger.ts'
import { openBatchPlace } from './batches/batch-place.ts'
import { BatchRunner, type BatchRunnerOptions } from './batches/batch-runner.ts'
import { Batches } from './batches/batches.ts'
import { type Config, isLoopbackHost } from './config/config.ts'
import { Files } from './files/files.ts'
import { SecretBox } from './lib/secrets/secret-box.ts'
import { Responses } from './responses/responses.ts'
import { cacheDirectory } from './setup/native-library.mjs'
import { openBlobs } from './storage/blobs.ts'
import { Database, type DatabaseOptions, type DatabaseTimeouts } from './storage/database.ts'
import { openDrafts } from './storage/draft-folder.ts'
import type { EmbeddedDatabase } from './storage/embedded/embedded-database.ts'
import { sharedSecret } from './storage/secrets.ts'
import { WatchRunner, type WatchRunnerOptions } from './watches/watch-runner.ts'
import { Watches } from './watches/watches.ts'

/** The state that outlives the server: accounts, files and usage, in the configured database and blob store. */
export interface State {
  readonly keys: Authenticator
  readonly files: Files
  readonly responses: Responses
  readonly batches: Batches
  readonly watches: Watches
  /** Encrypts what is secret in the database. */
  readonly secrets: SecretBox
  readonly ledger: UsageLedger
  readonly budgets: Budgets
  /** A secret that all servers on the database share. @throws ApiError 503 when the database is unavailable. */
  readonly secret: () => Promise<string>
  /** The key in the Studio's link; null where no link with a key is made. */
  readonly studioKey: string | null
  /** A folder for media that are being decoded. The next start removes what a crash leaves in it. */
  readonly mediaDirectory: string
  /** Null when the server has no rate limits. */
  readonly rateLimits: RateLimits | null
  /**
   * Creates a key if the database has none. The key cannot be shown again, so call this when it can be shown.
   * @param keep also keeps it; if that fails, there is no key.
   * @returns the key; null when there is a key already, or the configuration sets one.
   */
  createFirstKey(keep: (key: string) => Promise<void>): Promise<string | null>
  /** Makes what runs batches, without starting it. The caller starts and closes it. */
  createBatchRunner(
    options: Pick<BatchRunnerOptions, 'run' | 'parallel' | 'leaseMs' | 'pollMs' | 'pauseMs'>,
  ): BatchRunner
  /** Makes what runs watches; as above. */
  createWatchRunner(
    options: Omit<WatchRunnerOptions, 'database' | 'files' | 'keys' | 'secrets' | 'place' | 'logger'>,
  ): WatchRunner
  close(): Promise<void>
}

/**
 * @param embedded the embedded database, where its process has been started already.
 * @throws Error that says in one line what failed to open. Nothing is left open in that case.
 */
export async function openState(
  config: Config,
  logger: Logger,
  {
    clock,
    ...options
  }: { readonly clock?: Clock | undefined; readonly embedded?: EmbeddedDatabase | null } & DatabaseTimeouts = {},
): Promise<State> {
  await using opened = new AsyncDisposableStack()
  const database = await openDatabase(config, options)
  opened.defer(() => database.close())
  const blobs = await openBlobs(config.blobs, join(config.dataDirectory, 'spool'))
  opened.defer(() => blobs.close())

  const openedAt = Date.now()
  const mediaDirectory = join(config.dataDirectory, 'media')
  const drafts = await openDrafts(mediaDirectory)
  opened.defer(async () => drafts.close())

  const accounts = new Accounts(database)
  const studioKey = wantsStudioKey(config) ? await openStudioKey(config.dataDirectory) : null
  const own = [
    { id: CONFIGURED_KEY, key: config.apiKey },
    { id: STUDIO_KEY, key: studioKey },
  ].flatMap(({ id, key }) => (key === null ? [] : [{ id, key }]))
  if (own.length > 0 || config.ollama) await accounts.ensureFirstOrganisation()
  const keys = new Authenticator(database, own, clock)
  opened.defer(() => keys.close())
  const alone = drafts.alone ? openedAt : null
  const ledger = await UsageLedger.open(database, join(config.dataDirectory, 'ledger'), logger, alone)
  opened.defer(() => ledger.close())

  const rateLimits = config.rateLimits && (await openRateLimits(config.redisUrl, config.rateLimits, clock))
  opened.defer(async () => rateLimits?.close())

  const files = new Files({ database, blobs, logger })
  files.start()
  opened.defer(() => files.close())
  const place = await openBatchPlace(join(config.dataDirectory, 'batches'))
  opened.defer(async () => place[Symbol.dispose]())
  const responses = new Responses({ database, files, days: config.responseDays, logger })
  responses.start()
  opened.defer(() => responses.close())
  const secrets = new SecretBox(config.secret)
  const resources = opened.move()
  return {
    keys,
    studioKey,
    files,
    responses,
    secret: sharedSecret(database, 'seals'),
    batches: new Batches(database, files),
    // At least one, where there are any.
    secrets,
    watches: new Watches(database, files, { most: Math.ceil(config.watches / 2), secrets }),
    createWatchRunner: (options) => new WatchRunner({ ...options, database, files, keys, secrets, place, logger }),
    createBatchRunner: (options) => new BatchRunner({ ...options, database, files, keys, place, logger }),
    ledger,
    budgets: new Budgets(database),
    rateLimits,
    mediaDirectory,
    createFirstKey: async (keep) => (config.apiKey === null ? accounts.createFirstKey(keep) : null),
    close: () => resources.disposeAsync(),
  }
}

/** Only on a personal machine: the link gives full access. */
function wantsStudioKey({ studio, apiKey, host }: Config): boolean {
  return studio && apiKey === null && isLoopbackHost(host)
}

export function openDatabase(
  config: Config,
  options: Pick<DatabaseOptions, 'embedded'> & DatabaseTimeouts = {},
): Promise<Database> {
  return Database.open({
    url: config.databaseUrl,
    directory: join(config.dataDirectory, 'database'),
    cacheDirectory: config.cacheDirectory ?? cacheDirectory(),
    ...options,
  })
}
