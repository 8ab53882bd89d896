import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { type DestinationStream, type Logger, pino } from 'pino'
import type { Clock } from './accounts/rate-limits.ts'
import type { Config } from './config/config.ts'
import type { Examiner } from './doctor/examiner.ts'
import type { ModelCatalog } from './inference/catalog/model-catalog.ts'
import type { Engine } from './inference/contract/engine.ts'
import { type EngineOptions, startEngine } from './inference/engines/engines.ts'
import { openLog } from './lib/log-output.ts'
import { isFFmpegInstalled } from './media/decoding/ffmpeg-package.ts'
import type { DecoderPool } from './media/decoding/process/decoder-pool.ts'
import type { Metrics } from './metrics/metrics.ts'
import { serveMetrics } from './metrics/metrics-server.ts'
import type { ModelCard } from './models/card.ts'
import type { MachineSpeed } from './models/machine-speed.ts'
import { warmUpReader } from './models/read/model-reader.ts'
import { failToListen, probeAddresses, urlOf, warnIfBlocked, warnIfOpen } from './service/addresses.ts'
import { openApiParts } from './service/api-parts.ts'
import { loadCode, type Media, openCameras, openMedia, openMetrics } from './service/late-code.ts'
import { startModels } from './service/starting-models.ts'
import { cacheDirectory } from './setup/native-library.mjs'
import type { DatabaseTimeouts } from './storage/database.ts'
import { EmbeddedDatabase } from './storage/embedded/embedded-database.ts'

/** Where the first key is stored; everything else is replaced by tests. */
export interface ServiceParts {
  /** Stores the key that the first start creates, if it is not shown. */
  readonly keepFirstKey?: (key: string) => Promise<void>
  readonly startEngine?: (card: ModelCard, options: EngineOptions) => Promise<Engine>
  readonly media?: Media
  /** Shared with other services. */
  readonly decoders?: DecoderPool
  readonly clock?: Clock
  /** Timeouts of requests for the database. */
  readonly database?: DatabaseTimeouts
  readonly logs?: DestinationStream
  readonly keepAliveMs?: number
  readonly bodyTimeoutMs?: number
  readonly headersTimeoutMs?: number
  readonly lingerSilenceMs?: number
  readonly multilookBudgetSeconds?: number
  /** Time for active requests to finish when the service closes, in ms; the configured time by default. */
  readonly graceMs?: number
  /** How soon other servers take over batches. */
  readonly batches?: { readonly leaseMs?: number; readonly pollMs?: number; readonly pauseMs?: number }
  /** How soon other servers take over watches, and how soon a lack of frames is noticed. */
  readonly watches?: {
    readonly leaseMs?: number
    readonly beatMs?: number
    readonly silenceMs?: number
    readonly lagMs?: number
    /** How soon webhooks are sent again. */
    readonly webhooks?: { readonly timeoutMs?: number; readonly retriesMs?: readonly number[] }
  }
  /** How cameras are found, and how soon connections are retried. */
  readonly cameras?: Omit<Parameters<typeof openCameras>[1], 'secrets' | 'warn'>
  /** Maximum time that a request waits for its model to load, in ms. */
  readonly loadWaitMs?: number
  /** Measures this machine's speed; null if unknown. */
  readonly machineSpeed?: () => Promise<MachineSpeed | null>
}

/** Minimum time for sending the last traces, within the time for shutting down that the requests have left, in ms. */
const LEAST_FLUSH_MS = 1_000
const MOST_FLUSH_MS = 5_000
/** Unhandled errors, with their log messages. */
const FAULTS = { rejection: 'Unhandled rejection', exception: 'Uncaught exception' } as const

/** The running server with all its parts. */
export class Service {
  /** The address it listens on, e.g. `http://127.0.0.1:8080`. */
  readonly url: string
  /** The key from the configuration, or the one created at the first start; null when a key existed before. */
  readonly apiKey: string | null
  /** The address of the metrics, e.g. `http://127.0.0.1:9464/metrics`; null when they are off. */
  readonly metricsUrl: string | null
  /** The address of the Studio; null when it is off or was not built. */
  readonly studioUrl: string | null
  /** A key for the link to the Studio; null if none is created. */
  readonly studioKey: string | null
  readonly models: ModelCatalog
  readonly #resources: AsyncDisposableStack
  readonly #logger: Logger
  readonly #metrics: Metrics | null

  private constructor(
    about: Pick<Service, 'url' | 'apiKey' | 'metricsUrl' | 'studioUrl' | 'studioKey' | 'models'>,
    parts: { readonly logger: Logger; readonly metrics: Metrics | null; readonly resources: AsyncDisposableStack },
  ) {
    this.url = about.url
    this.apiKey = about.apiKey
    this.metricsUrl = about.metricsUrl
    this.studioUrl = about.studioUrl
    this.studioKey = about.studioKey
    this.models = about.models
    this.#resources = parts.resources
    this.#logger = parts.logger
    this.#metrics = parts.metrics
  }

  /**
   * Loads the models, then listens.
   * @throws Error that says what is wrong. Nothing is left running then.
   */
  static async start(config: Config, parts: ServiceParts = {}): Promise<Service> {
    // A port that is in use must be reported before the models load, which may take minutes.
    await probeAddresses(config)
    // Starts the process that reads the cards, before anything is served.
    warmUpReader()
    await using starting = new AsyncDisposableStack()
    const embedded = startDatabase(config)
    starting.defer(async () => embedded?.close())
    const logger = pino({ level: config.logLevel }, parts.logs ?? (await openLog(config.logFormat)))
    const metrics = config.metrics ? await openMetrics() : null
    let examiner: Examiner | null = null
    const { pool, opener, loading, launched } = await startModels(config, {
      start: parts.startEngine ?? startEngine,
      loadWaitMs: parts.loadWaitMs,
      ...{ logger, metrics },
      onChange: () => examiner?.poke(),
    })
    starting.defer(() => pool.close())
    // Models and database start in separate processes. Only then does this process load the rest of its code.
    const opening = launched
      .then(() => import('./state.ts'))
      .then(({ openState }) => openState(config, logger, { clock: parts.clock, embedded, ...parts.database }))
    starting.defer(async () => (await opening.catch(() => null))?.close())
    const { decoders } = parts
    const openingMedia = parts.media
      ? Promise.resolve(parts.media)
      : openMedia(config, { opening, metrics, logger, decoders })
    starting.defer(async () => (await openingMedia.catch(() => null))?.close())
    const [registry, state, media, code] = await Promise.all([loading, opening, openingMedia, launched.then(loadCode)])
    metrics?.watch(() => pool.engines)
    if (!isFFmpegInstalled()) logger.warn('Video and audio are not available: FFmpeg is not installed')

    const apiParts = await openApiParts(config, {
      ...{ registry, pool, opener, state, media, code, logger, metrics },
      multilookBudgetSeconds: parts.multilookBudgetSeconds,
      machineSpeed: parts.machineSpeed,
      resources: starting,
    })
    const { closing, examinations, models, studio, tracing } = apiParts
    examiner = examinations
    const runner =
      config.batchLines === 0
        ? null
        : state.createBatchRunner({
            run: code.lineCaller({ ...apiParts, shutdown: closing.shutdown }),
            parallel: config.batchLines,
            ...parts.batches,
          })
    const looker = config.watches === 0 ? null : code.watchLooker(apiParts)
    const { pool: cameraPool, cameras } = await openCameras(config, {
      ...parts.cameras,
      secrets: state.secrets,
      meter: metrics,
      warn: (message) => logger.warn(message),
    })
    starting.defer(() => cameraPool.close())
    const webhooks = { hosts: config.webhookHosts, ...parts.watches?.webhooks }
    const watchRunner =
      looker &&
      state.createWatchRunner({
        ...{ look: looker.look, media, cameras, most: config.watches, meter: metrics, ...parts.watches, webhooks },
      })
    if (watchRunner !== null) metrics?.states({ watches: () => watchRunner.states, cameras: () => cameraPool.states })
    const { keepAliveMs, bodyTimeoutMs, headersTimeoutMs, lingerSilenceMs } = parts
    const times = { keepAliveMs, bodyTimeoutMs, headersTimeoutMs, lingerSilenceMs }
    const app = code.createApi({ ...apiParts, ...times, watchRunner, cameras, onBatch: () => runner?.wake() })
    const scraped = metrics && config.metrics ? await serveMetrics(metrics, config.metrics) : null
    starting.defer(async () => scraped?.close())
    starting.defer(async () => {
      const graceMs = parts.graceMs ?? config.drainSeconds * 1000
      const end = performance.now() + graceMs
      // Lines of batches are repeated elsewhere or later. The time is for clients that wait.
      await Promise.all([runner?.close(), watchRunner?.close(), closing.close(app, graceMs)])
      looker?.close()
      await tracing?.close(Math.min(Math.max(end - performance.now(), LEAST_FLUSH_MS), MOST_FLUSH_MS))
    })
    const { keepFirstKey } = parts
    // A stored key exists as soon as the server responds: scripts wait for that. A key that is only shown would be lost
    // if the server could not listen.
    const keptKey = keepFirstKey ? await state.createFirstKey(keepFirstKey) : null
    await app.listen({ host: config.host, port: config.port }).catch(failToListen(config.port))
    const shownKey = keepFirstKey ? null : await state.createFirstKey(async () => {})
    const apiKey = config.apiKey ?? keptKey ?? shownKey
    runner?.start()
    watchRunner?.start()
    examinations.resume().catch((error: Error) => logger.warn(`Cannot examine models: ${error.message}`))
    const address = app.server.address() as AddressInfo
    warnIfOpen(address, logger)
    warnIfBlocked(address, logger)
    const url = urlOf(address)
    const about = {
      ...{ url, apiKey, models, studioKey: state.studioKey },
      metricsUrl: scraped && `${urlOf(scraped.address)}/metrics`,
      studioUrl: studio && `${url}/studio`,
    }
    return new Service(about, { logger, metrics, resources: starting.move() })
  }

  /** Logs and counts an unhandled error. */
  noteFault(kind: keyof typeof FAULTS, error: unknown): void {
    this.#metrics?.faulted(kind)
    this.#logger.error({ err: error }, FAULTS[kind])
  }

  /** Rejects new requests, gives accepted ones time to finish, and closes everything in reverse order. */
  close(): Promise<void> {
    return this.#resources.disposeAsync()
  }
}

/**
 * Begins to start the embedded database; null if an external one is configured. Opening the database waits for it, and
 * throws its error.
 */
function startDatabase({ databaseUrl, dataDirectory, cacheDirectory: cache }: Config): EmbeddedDatabase | null {
  if (databaseUrl !== null) return null
  const database = new EmbeddedDatabase(join(dataDirectory, 'database'), cache ?? cacheDirectory())
  database.ensure().catch(() => {})
  return database
}
