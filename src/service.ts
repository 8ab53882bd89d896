import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import ipaddr from 'ipaddr.js'
import { type DestinationStream, type Logger, pino } from 'pino'
import type { Clock } from './accounts/rate-limits.ts'
import { GracefulShutdown } from './api/http/connection/graceful-shutdown.ts'
import type { Config } from './config/config.ts'
import type { TracingVariables } from './config/tracing.ts'
import type { MediaSource } from './conversation/prompt/media-parts.ts'
import type { Examiner } from './doctor/examiner.ts'
import { ModelCatalog } from './inference/catalog/model-catalog.ts'
import { type ModelOpener, openModels } from './inference/catalog/open-models.ts'
import { StoredModels } from './inference/catalog/stored-models.ts'
import type { Engine } from './inference/contract/engine.ts'
import {
  describeCard,
  type EngineOptions,
  machineSpeed,
  servableCard,
  startEngine,
} from './inference/engines/engines.ts'
import { EnginePool } from './inference/pool/engine-pool.ts'
import { collectAllGarbage } from './lib/guarded/memory.ts'
import { openLog } from './lib/log-output.ts'
import { tellOnce } from './lib/tell-once.ts'
import { version } from './lib/version.ts'
import { isFFmpegInstalled } from './media/decoding/ffmpeg-package.ts'
import type { MediaLoader } from './media/media-loader.ts'
import type { Metrics } from './metrics/metrics.ts'
import { cannotListen, type MetricsAddress, MetricsServer } from './metrics/metrics-server.ts'
import { ServerStatus } from './metrics/server-status.ts'
import { isLocal, type ModelCard } from './models/card.ts'
import { machineMemory, memoryForModels } from './models/machine-memory.ts'
import type { MachineSpeed } from './models/machine-speed.ts'
import { warmUpReader } from './models/read/model-reader.ts'
import { findStoredCards } from './models/stored-cards.ts'
import { cacheDirectory } from './setup/native-library.mjs'
import { REFERENCE, STUDIO } from './setup/pages.mjs'
import type { State } from './state.ts'
import { EmbeddedDatabase } from './storage/embedded/embedded-database.ts'
import type { Tracing } from './tracing/tracing.ts'

type Media = MediaSource & Pick<MediaLoader, 'fetch' | 'close'>

/** Where the first key is kept; the other parts and limits are those that tests replace. */
export interface ServiceParts {
  /** Keeps the key that the first start creates, where it is not shown. */
  readonly keepFirstKey?: (key: string) => Promise<void>
  readonly startEngine?: (card: ModelCard, options: EngineOptions) => Promise<Engine>
  readonly media?: Media
  readonly clock?: Clock
  readonly logs?: DestinationStream
  readonly keepAliveMs?: number
  readonly bodyTimeoutMs?: number
  readonly headersTimeoutMs?: number
  readonly lingerSilenceMs?: number
  readonly multilookBudgetSeconds?: number
  /** How long active requests may take to finish when the service closes; the configured time by default. */
  readonly graceMs?: number
  /** How quickly batches go over to other servers. */
  readonly batches?: { readonly leaseMs?: number; readonly pollMs?: number; readonly pauseMs?: number }
  /** How long a request waits for its model to load. */
  readonly loadWaitMs?: number
  /** Measures how fast this machine computes; null where that is not known. */
  readonly machineSpeed?: () => Promise<MachineSpeed | null>
}

/** How long the last traces may take to be sent, within what the requests have left of the time to shut down. */
const LEAST_FLUSH_MS = 1_000
const MOST_FLUSH_MS = 5_000
/** Errors that nothing handled, with their log messages. */
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
  /** A key for the Studio's link; null where none is made. */
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

  /** Loads the models, then listens. @throws Error that says what is wrong. Nothing is left running in that case. */
  static async start(config: Config, parts: ServiceParts = {}): Promise<Service> {
    // A port that is in use must be reported before the models load, which may take minutes.
    await probe(config)
    if (config.metrics) await probeMetrics(config.metrics)
    // Cards are read with it, before anything is served.
    warmUpReader()
    await using starting = new AsyncDisposableStack()
    const embedded = startDatabase(config)
    starting.defer(async () => embedded?.close())
    const logger = pino({ level: config.logLevel }, parts.logs ?? (await openLog(config.logFormat)))
    const metrics = config.metrics ? await openMetrics() : null
    const memoryLimitBytes = config.modelMemoryBytes
    let examiner: Examiner | null = null
    const pool = new EnginePool({
      memoryLimitBytes,
      loadWaitMs: parts.loadWaitMs,
      maxWaiting: config.queueLength,
      logger,
      meter: metrics ?? undefined,
      onChange: () => examiner?.poke(),
    })
    starting.defer(() => pool.close())
    const launched = Promise.withResolvers<void>()
    const opener = modelOpener(config, {
      start: parts.startEngine ?? startEngine,
      logger,
      metrics,
      launched: launched.resolve,
    })
    const loading = openModels({
      paths: config.modelCards,
      aliases: config.aliases,
      others: await hasCards(config.modelStore),
      pool,
      measured: memoryLimitBytes !== null,
      warn: (message) => logger.warn(message),
      opener,
    })
    // Models and database start in processes of their own. Only then does this one load the rest of its code.
    const started = Promise.race([launched.promise, loading])
    const opening = started
      .then(() => import('./state.ts'))
      .then(({ openState }) => openState(config, logger, { clock: parts.clock, embedded }))
    starting.defer(async () => (await opening.catch(() => null))?.close())
    const openingMedia = parts.media ? Promise.resolve(parts.media) : openMedia(config, { opening, metrics, logger })
    starting.defer(async () => (await openingMedia.catch(() => null))?.close())
    const [registry, state, media, code] = await Promise.all([loading, opening, openingMedia, started.then(loadCode)])
    metrics?.watch(() => pool.engines)

    if (!isFFmpegInstalled()) logger.warn('Video and audio are not available: FFmpeg is not installed')
    const conversations = new code.Conversations({
      registry,
      media,
      compatibility: config.compatibility,
      chatBudgetSeconds: config.chatSeconds,
      multilookBudgetSeconds: parts.multilookBudgetSeconds,
      warn: (message) => logger.warn(message),
    })
    starting.defer(() => conversations.close())

    const stored = new StoredModels({
      directory: config.modelStore,
      registry,
      pool,
      opener,
      aliases: config.aliases,
      memoryBytes: memoryLimitBytes ?? machineMemory(),
      prepare: (models) => conversations.addModels(models),
      logger,
    })
    starting.defer(() => stored.close())
    // The first request that needs it waits for it; the start does not.
    void stored.refresh()
    const models = new ModelCatalog(registry, stored)

    const speed = measuredOnce(parts.machineSpeed ?? (() => machineSpeed(config)))
    const machine = async () => ({ available: memoryForModels(memoryLimitBytes), speed: await speed() })
    const pulls = new code.ModelPulls({ store: config.modelStore, memoryLimitBytes, machineSpeed: speed, logger })
    starting.defer(() => pulls.close())

    const examinations = new code.Examiner({ models, media, pool, logger })
    examiner = examinations
    starting.defer(() => examinations.close())

    const bodies = new code.BodyReader(new code.ByteBudget(config.bodyMemoryBytes, { collect: collectAllGarbage }))
    starting.defer(() => bodies.close())

    const tracing = config.tracing ? await openTracing(config.tracing, logger) : null
    const closing = new GracefulShutdown()
    const studio = config.studio ? await code.readPage(STUDIO.directory) : null
    const hasReference = config.docs && existsSync(REFERENCE.directory)
    const apiParts = {
      models,
      machine,
      pulls,
      examinations,
      status: new ServerStatus(await version(), () => pool.engines),
      conversations,
      media,
      ...state,
      bodies,
      corsOrigins: config.corsOrigins,
      compatibility: config.compatibility,
      ollama: config.ollama,
      studio,
      reference: hasReference ? REFERENCE.directory : null,
      logger,
      meter: metrics,
      tracing,
      closing,
      keepAliveMs: parts.keepAliveMs,
      bodyTimeoutMs: parts.bodyTimeoutMs,
      headersTimeoutMs: parts.headersTimeoutMs,
      lingerSilenceMs: parts.lingerSilenceMs,
    }
    const runner =
      config.batchLines === 0
        ? null
        : state.createBatchRunner({
            run: code.lineCaller({ ...apiParts, shutdown: closing.shutdown }),
            parallel: config.batchLines,
            ...parts.batches,
          })
    const app = code.createApi({ ...apiParts, onBatch: () => runner?.wake() })
    let metricsUrl: string | null = null
    if (metrics && config.metrics) {
      const server = await MetricsServer.start(metrics, config.metrics)
      starting.defer(() => server.close())
      metricsUrl = `${urlOf(server.address)}/metrics`
    }
    starting.defer(async () => {
      const graceMs = parts.graceMs ?? config.drainSeconds * 1000
      const end = performance.now() + graceMs
      // Lines of batches run again elsewhere or later. The time is for those who wait.
      await Promise.all([runner?.close(), closing.close(app, graceMs)])
      await tracing?.close(Math.min(Math.max(end - performance.now(), LEAST_FLUSH_MS), MOST_FLUSH_MS))
    })
    await app.listen({ host: config.host, port: config.port })
    runner?.start()
    examinations.resume().catch((error: Error) => logger.warn(`Cannot examine models: ${error.message}`))
    const address = app.server.address() as AddressInfo
    warnIfOpen(address, logger)
    const url = urlOf(address)
    const apiKey = config.apiKey ?? (await state.createFirstKey(parts.keepFirstKey ?? (async () => {})))
    const studioUrl = studio && `${url}/studio`
    const about = { url, apiKey, metricsUrl, studioUrl, studioKey: state.studioKey, models }
    return new Service(about, { logger, metrics, resources: starting.move() })
  }

  /** Logs and counts an error that nothing handled. */
  noteFault(kind: keyof typeof FAULTS, error: unknown): void {
    this.#metrics?.faulted(kind)
    this.#logger.error({ err: error }, FAULTS[kind])
  }

  /** Rejects new requests, gives accepted ones time to finish, and closes everything in reverse order. */
  close(): Promise<void> {
    return this.#resources.disposeAsync()
  }
}

/** Begins to start the embedded database; null with one elsewhere. Opening it waits, and throws what is wrong. */
function startDatabase({ databaseUrl, dataDirectory, cacheDirectory: cache }: Config): EmbeddedDatabase | null {
  if (databaseUrl !== null) return null
  const database = new EmbeddedDatabase(join(dataDirectory, 'database'), cache ?? cacheDirectory())
  database.ensure().catch(() => {})
  return database
}

interface OpenerParts {
  readonly start: (card: ModelCard, options: EngineOptions) => Promise<Engine>
  readonly logger: Logger
  readonly metrics: Metrics | null
  /** Called when an engine's process has started, or none of this machine is needed. */
  readonly launched: () => void
}

function modelOpener(config: Config, { start, logger, metrics, launched }: OpenerParts): ModelOpener {
  const lacks = tellOnce((problem) => logger.warn(problem))
  return {
    describe: (card) => describeCard(card, config.caches),
    servable: (card) => servableCard(card, lacks),
    start: (card, name, signal) => {
      if (!isLocal(card)) launched()
      return start(card, {
        logger,
        signal,
        maxWaiting: config.queueLength,
        backend: config.backend,
        ...config.caches,
        onLaunch: launched,
        prefixDisk: config.prefixDisk,
        onRestart: () => metrics?.restarted(name),
      })
    },
  }
}

/** The rest of the code. Loading it takes all of this process's time. */
async function loadCode() {
  const modules = await Promise.all([
    import('./api/api.ts'),
    import('./api/batch-lines.ts'),
    import('./api/pages/page-files.ts'),
    import('./api/http/body/body-reader.ts'),
    import('./api/http/body/byte-budget.ts'),
    import('./conversation/conversations.ts'),
    import('./hub/model-pulls.ts'),
    import('./doctor/examiner.ts'),
  ])
  const [{ createApi }, { lineCaller }, { readPage }, { BodyReader }, { ByteBudget }, ...others] = modules
  const [{ Conversations }, { ModelPulls }, { Examiner }] = others
  return { createApi, lineCaller, readPage, BodyReader, ByteBudget, Conversations, ModelPulls, Examiner }
}

/** Measured when it is first asked for, and once: it takes seconds of all processors. */
function measuredOnce<Result>(measure: () => Promise<Result>): () => Promise<Result> {
  let measured: Promise<Result> | null = null
  return () => {
    measured ??= measure()
    return measured
  }
}

async function openMetrics(): Promise<Metrics> {
  const { Metrics } = await import('./metrics/metrics.ts')
  return new Metrics(await version())
}

/** Without it, nothing of OpenTelemetry is loaded. */
async function openTracing(variables: TracingVariables, logger: Logger): Promise<Tracing | null> {
  const { Tracing } = await import('./tracing/tracing.ts')
  return Tracing.open(variables, await version(), logger)
}

interface MediaParts {
  readonly opening: Promise<State>
  readonly metrics: Metrics | null
  readonly logger: Logger
}

/** Starts a decoder, which is ready by the time that the models are. @throws Error when a sandbox is required and missing. */
async function openMedia(config: Config, { opening, metrics, logger }: MediaParts): Promise<Media> {
  const [{ files, mediaDirectory }, { MediaLoader }] = await Promise.all([opening, import('./media/media-loader.ts')])
  const media = new MediaLoader({
    sandbox: config.decoderSandbox,
    allowedHosts: config.mediaHosts,
    files,
    meter: metrics ?? undefined,
    spool: { directory: mediaDirectory },
  })
  const { isOn, description } = media.sandbox
  logger[isOn ? 'info' : 'warn'](description)
  return media
}

/** A store that cannot be read is reported later, in the log. */
async function hasCards(store: string): Promise<boolean> {
  return findStoredCards(store).then(
    ({ cards }) => cards.size > 0,
    () => true,
  )
}

/** @throws Error when the server cannot listen on the address. */
async function probe({ host, port }: MetricsAddress): Promise<void> {
  if (port === 0) return
  const server = createServer().listen({ host, port })
  await once(server, 'listening')
  server.close()
  await once(server, 'close')
}

async function probeMetrics(address: MetricsAddress): Promise<void> {
  await probe(address).catch((cause: Error) => {
    throw cannotListen(address, cause)
  })
}

function warnIfOpen(info: AddressInfo, logger: Logger): void {
  if (ipaddr.process(info.address).range() === 'loopback') return
  logger.warn(
    `${urlOf(info)} is open to other machines, without TLS: keys and media cross the network as they are, unless a proxy ` +
      'in front of it adds TLS and no one else can reach this port',
  )
}

function urlOf({ address, family, port }: AddressInfo): string {
  return `http://${family === 'IPv6' ? `[${address}]` : address}:${port}`
}
