import type { FastifyInstance } from 'fastify'
import type { ModelRegistry } from '../../inference/registry.ts'
import { OPEN_PATHS } from './auth.ts'
import { addEndpoint } from './routes.ts'

/** `GET /healthz`: the process is alive. `GET /readyz`: it accepts requests. */
export function addHealth(app: FastifyInstance, registry: ModelRegistry, draining: AbortSignal): void {
  addEndpoint(app, { url: OPEN_PATHS.live, handlers: { GET: async () => ({ status: 'ok' }) } })
  addEndpoint(app, {
    url: OPEN_PATHS.ready,
    handlers: {
      GET: async (_request, reply) => {
        if (registry.ready && !draining.aborted) return { status: 'ready' }
        reply.code(503)
        return { status: draining.aborted ? 'closing' : 'starting' }
      },
    },
  })
}
