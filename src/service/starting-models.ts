import type { Logger } from 'pino'
import type { Config } from '../config/config.ts'
import { type ModelOpener, openModels } from '../inference/catalog/open-models.ts'
import type { ModelRegistry } from '../inference/catalog/registry.ts'
import type { Engine } from '../inference/contract/engine.ts'
import { describeCard, type EngineOptions, servableCard } from '../inference/engines/engines.ts'
import { EnginePool } from '../inference/pool/engine-pool.ts'
import { tellOnce } from '../lib/tell-once.ts'
import type { Metrics } from '../metrics/metrics.ts'
import { isLocal, type ModelCard } from '../models/card.ts'
import { findStoredCards } from '../models/stored-cards.ts'

/** Models that are loading. */
export interface StartingModels {
  /** The caller closes it. */
  readonly pool: EnginePool
  readonly opener: ModelOpener
  /** Resolves when the models that load at start have loaded. */
  readonly loading: Promise<ModelRegistry>
  /** Resolves when the first engine's process has started, or if no local engine is needed. */
  readonly launched: Promise<unknown>
}

export interface StartingOptions {
  readonly start: (card: ModelCard, options: EngineOptions) => Promise<Engine>
  readonly loadWaitMs: number | undefined
  readonly logger: Logger
  readonly metrics: Metrics | null
  /** Called when an engine's state has changed. */
  readonly onChange: () => void
}

/** Begins to load the configured models. */
export async function startModels(config: Config, options: StartingOptions): Promise<StartingModels> {
  const { loadWaitMs, logger, metrics, onChange } = options
  const launched = Promise.withResolvers<void>()
  const pool = new EnginePool({
    memoryLimitBytes: config.modelMemoryBytes,
    loadWaitMs,
    // A request that waits in vain for half of its time can still be answered.
    drainMs: config.chatSeconds === undefined ? undefined : config.chatSeconds * 500,
    maxWaiting: config.queueLength,
    logger,
    meter: metrics ?? undefined,
    onChange,
  })
  const opener = modelOpener(config, options, launched.resolve)
  const loading = openModels({
    paths: config.modelCards,
    aliases: config.aliases,
    others: await hasCards(config.modelStore),
    pool,
    measured: config.modelMemoryBytes !== null,
    warn: (message) => logger.warn(message),
    opener,
  })
  return { pool, opener, loading, launched: Promise.race([launched.promise, loading]) }
}

/** @param launched called when an engine's process has started, or if no local engine is needed. */
function modelOpener(config: Config, { start, logger, metrics }: StartingOptions, launched: () => void): ModelOpener {
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

/** An unreadable store is reported later, in the log. */
async function hasCards(store: string): Promise<boolean> {
  return findStoredCards(store).then(
    ({ cards }) => cards.size > 0,
    () => true,
  )
}
