import { readFile } from 'node:fs/promises'
import type { AddressInfo } from 'node:net'
import { type DestinationStream, pino } from 'pino'
import { type Clock, FixedApiKeys, keptApiKey, RateLimits } from './accounts/index.ts'
import { createApi } from './api/api.ts'
import { Closing } from './api/closing.ts'
import type { Config } from './config/config.ts'
import { Conversations, type ImageSource } from './conversation/index.ts'
import type { Engine } from './inference/engine.ts'
import { LocalEngine } from './inference/local/local-engine.ts'
import { ImageLoader } from './media/index.ts'
import { loadCard, type ModelCard } from './models/card.ts'
import { ModelRegistry } from './models/registry.ts'

/** Parts that tests put in the place of the real ones. */
export interface ServiceParts {
  readonly startEngine?: (card: ModelCard) => Promise<Engine>
  readonly images?: ImageSource & { close(): Promise<void> }
  readonly clock?: Clock
  readonly logs?: DestinationStream
  readonly keepAliveMs?: number
  readonly chatBudgetSeconds?: number
  readonly multilookBudgetSeconds?: number
  /** Time that answers under way get to end when the service closes. */
  readonly graceMs?: number
}

const GRACE_MS = 5_000
const ORGANISATION = 'default'

/** The whole server, from the configuration to an open port. */
export class Service {
  /** Where it listens, e.g. `http://127.0.0.1:8080`. */
  readonly url: string
  readonly apiKey: string
  readonly models: ModelRegistry
  readonly #resources: AsyncDisposableStack

  private constructor(url: string, apiKey: string, models: ModelRegistry, resources: AsyncDisposableStack) {
    this.url = url
    this.apiKey = apiKey
    this.models = models
    this.#resources = resources
  }

  /** Loads the models, then listens. @throws Error that says what is wrong; nothing is left running then. */
  static async start(config: Config, parts: ServiceParts = {}): Promise<Service> {
    await using starting = new AsyncDisposableStack()
    const logger = pino({ level: config.logLevel }, parts.logs ?? pino.destination(2))
    const apiKey = config.apiKey ?? (await keptApiKey(config.dataDirectory))

    const startEngine = parts.startEngine ?? ((card) => LocalEngine.start(card, { logger }))
    const registry = new ModelRegistry()
    for (const file of config.modelCards) {
      const card = await loadCard(file)
      const engine = await startEngine(card)
      starting.defer(() => engine.close())
      registry.add(card, engine)
    }
    const images = parts.images ?? new ImageLoader({ allowedHosts: config.mediaHosts })
    starting.defer(() => images.close())

    const conversations = new Conversations({
      registry,
      images,
      chatBudgetSeconds: parts.chatBudgetSeconds,
      multilookBudgetSeconds: parts.multilookBudgetSeconds,
    })
    starting.defer(() => conversations.close())

    const closing = new Closing()
    const app = createApi({
      registry,
      conversations,
      keys: new FixedApiKeys([{ key: apiKey, organisation: ORGANISATION }]),
      rateLimits: config.rateLimits ? new RateLimits(parts.clock) : null,
      logger,
      version: await version(),
      draining: closing.draining,
      shutdown: closing.shutdown,
      keepAliveMs: parts.keepAliveMs,
    })
    starting.defer(() => closing.close(app, parts.graceMs ?? GRACE_MS))
    await app.listen({ host: config.host, port: config.port })
    return new Service(urlOf(app.server.address() as AddressInfo), apiKey, registry, starting.move())
  }

  /** Takes no new requests, gives those under way a short grace, and closes everything in reverse order. */
  close(): Promise<void> {
    return this.#resources.disposeAsync()
  }
}

export async function version(): Promise<string> {
  const file = new URL('../package.json', import.meta.url)
  return (JSON.parse(await readFile(file, 'utf8')) as { version: string }).version
}

function urlOf({ address, family, port }: AddressInfo): string {
  return `http://${family === 'IPv6' ? `[${address}]` : address}:${port}`
}
