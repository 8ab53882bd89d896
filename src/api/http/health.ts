import type { FastifyInstance } from 'fastify'
import type { ModelCatalog } from '../../inference/catalog/model-catalog.ts'
import { OPEN_PATHS } from './access/auth.ts'
import { addEndpoint } from './routes.ts'
import type { LivenessBody, ReadinessBody } from './wire/about.ts'

/** `GET /healthz`: the process is alive. `GET /readyz`: it accepts requests. */
export function addHealth(app: FastifyInstance, models: ModelCatalog, draining: AbortSignal): void {
  addEndpoint(app, { url: OPEN_PATHS.live, handlers: { GET: async (): Promise<LivenessBody> => ({ status: 'ok' }) } })
  addEndpoint(app, {
    url: OPEN_PATHS.ready,
    handlers: {
      GET: async (_request, reply): Promise<ReadinessBody> => {
        if (models.ready && !draining.aborted) return { status: 'ready' }
        reply.code(503)
        return { status: draining.aborted ? 'closing' : 'starting' }
      },
    },
  })
}
