import type { FastifyInstance } from 'fastify'
import { SCOPES } from '../../accounts/api-key.ts'
import { isDemonstration } from '../../config/shipped-model.ts'
import type { ModelCatalog } from '../../inference/catalog/model-catalog.ts'
import type { EngineStatus, ServerStatus } from '../../metrics/server-status.ts'
import { principalOf } from './access/auth.ts'
import { type Examinations, toExaminationBody } from './examinations.ts'
import { addEndpoint } from './routes.ts'
import type { ModelExaminationBody, ServerStatusBody } from './wire/server-status.ts'

export interface ServerStatusOptions {
  readonly models: ModelCatalog
  readonly status: ServerStatus
  readonly examinations: Pick<Examinations, 'of'>
}

/** `GET /v1/server`: how busy the server is, for any key. The contract has no such path. */
export function addServerStatus(app: FastifyInstance, options: ServerStatusOptions): void {
  addEndpoint(app, {
    url: '/v1/server',
    handlers: {
      GET: async (request): Promise<ServerStatusBody> => {
        const { scopes } = principalOf(request)
        return {
          ...(await describe(options)),
          scopes: SCOPES.filter((scope) => scopes.has(scope)),
        }
      },
    },
  })
}

async function describe({
  models,
  status,
  examinations,
}: ServerStatusOptions): Promise<Omit<ServerStatusBody, 'scopes'>> {
  const served = await models.list()
  const examined = new Map<unknown, ModelExaminationBody | null>()
  for (const model of served) {
    const found = models.isStored(model) ? await examinations.of(model) : null
    examined.set(model.engine, found && toExaminationBody(found))
  }
  const { engines, memory } = await status.read()
  const all = [...engines.values()]
  const sum = (of: (engine: EngineStatus) => number) => all.reduce((total, engine) => total + of(engine), 0)
  return {
    object: 'server',
    version: status.version,
    started_at: Math.floor(status.startedAt.getTime() / 1000),
    uptime_seconds: status.uptimeSeconds,
    running: sum(({ running }) => running),
    queued: sum(({ queued }) => queued),
    tokens_per_second: rounded(
      sum(({ tokensPerSecond }) => tokensPerSecond),
      10,
    ),
    cached_share: shareOf(
      sum(({ reusedTokens }) => reusedTokens),
      sum(({ promptTokens }) => promptTokens),
    ),
    memory: {
      process_bytes: memory.processBytes,
      engine_bytes: sum(({ memoryBytes }) => memoryBytes ?? 0),
      available_bytes: memory.availableBytes,
      total_bytes: memory.totalBytes,
    },
    engines: [...engines].flatMap(([engine, { state, running, queued, ...figures }]) => {
      const own = served.filter((model) => model.engine === engine)
      // A model that is no longer served finishes its running requests.
      if (own.length === 0) return []
      return {
        models: own.map(({ id }) => id),
        stored: own.every((model) => models.isStored(model)),
        demonstration: own.every(({ card }) => isDemonstration(card)),
        state,
        running,
        queued,
        tokens_per_second: rounded(figures.tokensPerSecond, 10),
        cached_share: shareOf(figures.reusedTokens, figures.promptTokens),
        memory_bytes: figures.memoryBytes,
        examination: examined.get(engine) ?? null,
      }
    }),
  }
}

/** Rounds, so that the number does not reveal a single request. */
function shareOf(part: number, whole: number): number | null {
  return whole === 0 ? null : rounded(part / whole, 100)
}

function rounded(value: number, parts: number): number {
  return Math.round(value * parts) / parts
}
