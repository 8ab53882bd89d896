import { existsSync } from 'node:fs'
import type { Logger } from 'pino'
import { GracefulShutdown } from '../api/http/connection/graceful-shutdown.ts'
import type { Config } from '../config/config.ts'
import { ModelCatalog } from '../inference/catalog/model-catalog.ts'
import type { ModelRegistry } from '../inference/catalog/registry.ts'
import { machineSpeed } from '../inference/engines/engines.ts'
import { collectAllGarbage } from '../lib/guarded/memory.ts'
import { version } from '../lib/version.ts'
import type { Metrics } from '../metrics/metrics.ts'
import { ServerStatus } from '../metrics/server-status.ts'
import { machineMemory, memoryForModels } from '../models/machine-memory.ts'
import type { MachineSpeed } from '../models/machine-speed.ts'
import { REFERENCE, STUDIO } from '../setup/pages.mjs'
import type { State } from '../state.ts'
import { type loadCode, type Media, openTracing } from './late-code.ts'
import type { StartingModels } from './starting-models.ts'

interface OpenedParts extends Pick<StartingModels, 'pool' | 'opener'> {
  readonly registry: ModelRegistry
  readonly state: State
  readonly media: Media
  readonly code: Awaited<ReturnType<typeof loadCode>>
  readonly logger: Logger
  readonly metrics: Metrics | null
  readonly multilookBudgetSeconds: number | undefined
  readonly machineSpeed: (() => Promise<MachineSpeed | null>) | undefined
  /** Closes the opened resources. */
  readonly resources: AsyncDisposableStack
}

/** Opens the resources that the API uses. */
export async function openApiParts(config: Config, opened: OpenedParts) {
  const { registry, pool, opener, state, media, code, logger, metrics, resources } = opened
  const { compatibility, modelMemoryBytes: memoryLimitBytes, modelStore: store } = config

  const conversations = new code.Conversations({
    registry,
    media,
    compatibility,
    secret: state.secret,
    chatBudgetSeconds: config.chatSeconds,
    multilookBudgetSeconds: opened.multilookBudgetSeconds,
    warn: (message) => logger.warn(message),
  })
  resources.defer(() => conversations.close())

  const models = new ModelCatalog({
    directory: store,
    registry,
    pool,
    opener,
    aliases: config.aliases,
    memoryBytes: memoryLimitBytes ?? machineMemory(),
    prepare: (models) => conversations.addModels(models),
    logger,
  })
  resources.defer(() => models.close())
  // The first request that needs it waits for it; startup does not.
  void models.look()

  // It uses all processors for seconds.
  const speed = opened.machineSpeed ?? (() => machineSpeed(config))
  const pulls = new code.ModelPulls({ store, memoryLimitBytes, machineSpeed: speed, logger })
  resources.defer(() => pulls.close())

  const examinations = new code.Examiner({ models, media, pool, logger })
  resources.defer(() => examinations.close())

  const bodies = new code.BodyReader(new code.ByteBudget(config.bodyMemoryBytes, { collect: collectAllGarbage }))
  resources.defer(() => bodies.close())

  const hasReference = config.docs && existsSync(REFERENCE.directory)
  return {
    ...state,
    ...{ models, pulls, examinations, conversations, media, bodies, compatibility, logger, meter: metrics },
    tracing: config.tracing ? await openTracing(config.tracing, logger) : null,
    closing: new GracefulShutdown(),
    machine: async () => ({ available: memoryForModels(memoryLimitBytes), speed: await speed() }),
    status: new ServerStatus(await version(), () => pool.engines),
    corsOrigins: config.corsOrigins,
    ollama: config.ollama,
    studio: config.studio ? await code.readPage(STUDIO.directory) : null,
    reference: hasReference ? REFERENCE.directory : null,
  }
}
