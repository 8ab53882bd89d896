import { findCards, loadCard, type ModelCard } from '../../models/card.ts'
import type { Engine, ModelInfo } from '../contract/engine.ts'
import type { EnginePool } from '../pool/engine-pool.ts'
import { type Aliases, withAliases } from './aliases.ts'
import { ModelRegistry } from './registry.ts'

export interface ModelOpener {
  /** @param name the model's name in logs and metrics. @param signal aborted when the engine is no longer wanted. */
  start(card: ModelCard, name: string, signal: AbortSignal): Promise<Engine>
  /** Reads the headers of a model's files. @throws CardError */
  describe(card: ModelCard): Promise<{ readonly info: ModelInfo; readonly memoryBytes: number }>
  /** The card as this machine can serve it. Logs what the machine cannot do. */
  servable(card: ModelCard): ModelCard
}

export interface OpenModelsOptions {
  /** Model cards and folders of them. */
  readonly paths: readonly string[]
  readonly aliases: Aliases
  /** Whether there are other models, which an alias may name. */
  readonly others: boolean
  readonly pool: EnginePool
  /** Whether the pool must know the memory of each model. */
  readonly measured: boolean
  readonly opener: ModelOpener
  /** Receives one-line warnings about cards that should be changed. */
  warn(message: string): void
}

/**
 * Reads all cards and loads the models that load at start. Also rejects an unusable card whose model would be loaded
 * later.
 * @throws Error that names the card.
 */
export async function openModels(options: OpenModelsOptions): Promise<ModelRegistry> {
  const { paths, aliases, others, pool, measured, opener, warn } = options
  const files = await findCards(paths)
  const written = await Promise.all(files.map((file) => loadCard(file, warn)))
  const cards = withAliases(written, aliases, others ? warn : null).map(opener.servable)
  const models = []
  for (const card of cards) {
    const name = card.serves[0]!.id
    const described = measured || card.load === 'first_use' ? await opener.describe(card) : null
    const start = (signal: AbortSignal) => opener.start(card, name, signal)
    const { info = null, memoryBytes = null } = described ?? {}
    models.push({ card, engine: pool.add({ name, info, memoryBytes, start }) })
  }
  await pool.preload(models.filter(({ card }) => card.load === 'start').map(({ engine }) => engine))
  const registry = new ModelRegistry()
  for (const { card, engine } of models) registry.add(card, engine)
  return registry
}
