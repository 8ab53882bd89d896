import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { type DestinationStream, pino } from 'pino'
import type { Clock } from './accounts/index.ts'
import { Closing } from './api/closing.ts'
import type { Config } from './config/config.ts'
import { Conversations, type MediaSource } from './conversation/index.ts'
import type { Engine } from './inference/engine.ts'
import { LocalEngine, type LocalEngineOptions } from './inference/local/local-engine.ts'
import { describeModel } from './inference/local/model-files.ts'
import { MediaLoader } from './media/index.ts'
import { Metrics } from './metrics/metrics.ts'
import { MetricsServer } from './metrics/metrics-server.ts'
import type { ModelCard } from './models/card.ts'
import { EnginePool } from './models/engine-pool.ts'
import { openModels } from './models/open-models.ts'
import type { ModelRegistry } from './models/registry.ts'
import { version } from './version.ts'

/** Parts that tests put in the place of the real ones. */
export interface ServiceParts {
  readonly startEngine?: (card: ModelCard, options: LocalEngineOptions) => Promise<Engine>
  readonly media?: MediaSource & { close(): Promise<void> }
  readonly clock?: Clock
  readonly logs?: DestinationStream
  readonly keepAliveMs?: number
  readonly bodyTimeoutMs?: number
  readonly chatBudgetSeconds?: number
  readonly multilookBudgetSeconds?: number
  /** Time that answers under way get to end when the service closes, in place of the configured one. */
  readonly graceMs?: number
  /** Time that a request waits for its model to be loaded. */
  readonly loadWaitMs?: number
}

/** The whole server, from the configuration to an open port. */
export class Service {
  /** Where it listens, e.g. `http://127.0.0.1:8080`. */
  readonly url: string
  /** The key that the configuration fixes or that was made just now, at the first start; null for those of before. */
  readonly apiKey: string | null
  /** Where metrics are read, e.g. `http://127.0.0.1:9464/metrics`; null for nowhere. */
  readonly metricsUrl: string | null
  readonly models: ModelRegistry
  readonly #resources: AsyncDisposableStack

  private constructor(
    about: Pick<Service, 'url' | 'apiKey' | 'metricsUrl' | 'models'>,
    resources: AsyncDisposableStack,
  ) {
    this.url = about.url
    this.apiKey = about.apiKey
    this.metricsUrl = about.metricsUrl
    this.models = about.models
    this.#resources = resources
  }

  /** Loads the models, then listens. @throws Error that says what is wrong; nothing is left running then. */
  static async start(config: Config, parts: ServiceParts = {}): Promise<Service> {
    // Said before a model is loaded, which may take minutes.
    await probe(config)
    await using starting = new AsyncDisposableStack()
    const logger = pino({ level: config.logLevel }, parts.logs ?? pino.destination(2))
    const metrics = config.metrics ? new Metrics(await version()) : null
    const startEngine = parts.startEngine ?? LocalEngine.start
    const memoryLimitBytes = config.modelMemoryBytes
    const pool = new EnginePool({ memoryLimitBytes, loadWaitMs: parts.loadWaitMs, logger, meter: metrics ?? undefined })
    starting.defer(() => pool.close())
    const loading = openModels({
      paths: config.modelCards,
      pool,
      measured: memoryLimitBytes !== null,
      opener: {
        describe: describeModel,
        start: (card, name, signal) => startEngine(card, { logger, signal, onRestart: () => metrics?.restarted(name) }),
      },
    })
    // While models are being loaded in their processes, this one has time to load its own code and to open what it keeps.
    const opening = import('./state.ts').then(({ openState }) => openState(config, logger, parts.clock))
    starting.defer(async () => (await opening.catch(() => null))?.close())
    const [registry, state, { createApi }] = await Promise.all([loading, opening, import('./api/api.ts')])
    metrics?.watch(pool.engines)
    const media =
      parts.media ??
      new MediaLoader({ allowedHosts: config.mediaHosts, files: state.files, meter: metrics ?? undefined })
    starting.defer(() => media.close())

    const conversations = new Conversations({
      registry,
      media,
      chatBudgetSeconds: parts.chatBudgetSeconds,
      multilookBudgetSeconds: parts.multilookBudgetSeconds,
    })
    starting.defer(() => conversations.close())

    const closing = new Closing()
    const app = createApi({
      registry,
      conversations,
      ...state,
      corsOrigins: config.corsOrigins,
      logger,
      meter: metrics,
      closing,
      keepAliveMs: parts.keepAliveMs,
      bodyTimeoutMs: parts.bodyTimeoutMs,
    })
    let metricsUrl: string | null = null
    if (metrics && config.metrics) {
      const server = await MetricsServer.start(metrics, config.metrics)
      starting.defer(() => server.close())
      metricsUrl = `${urlOf(server.address)}/metrics`
    }
    starting.defer(() => closing.close(app, parts.graceMs ?? config.drainSeconds * 1000))
    await app.listen({ host: config.host, port: config.port })
    const url = urlOf(app.server.address() as AddressInfo)
    const apiKey = config.apiKey ?? (await state.createFirstKey())
    return new Service({ url, apiKey, metricsUrl, models: registry }, starting.move())
  }

  /** Takes no new requests, gives accepted ones time to end, and closes everything in reverse order. */
  close(): Promise<void> {
    return this.#resources.disposeAsync()
  }
}

/** @throws Error when the address cannot be listened on. */
async function probe({ host, port }: Config): Promise<void> {
  if (port === 0) return
  const server = createServer().listen({ host, port })
  await once(server, 'listening')
  server.close()
  await once(server, 'close')
}

function urlOf({ address, family, port }: AddressInfo): string {
  return `http://${family === 'IPv6' ? `[${address}]` : address}:${port}`
}
