import { z } from 'zod'
import { responseSchemas } from './components.ts'

/** Response of `GET /` to clients other than browsers. */
export const about = z
  .object({
    name: z.literal('Lookout'),
    version: z.string(),
    description: z.string(),
    documentation: z.string(),
    links: z.record(z.string(), z.string()).register(responseSchemas, { id: 'ServerLinks' }),
    authentication: z.string(),
  })
  .register(responseSchemas, { id: 'ServerAbout' })

/** Responses of `GET /healthz` and `GET /readyz`. */
export const liveness = z.object({ status: z.literal('ok') }).register(responseSchemas, { id: 'Liveness' })
export const readiness = z
  .object({ status: z.enum(['ready', 'starting', 'closing']) })
  .register(responseSchemas, { id: 'Readiness' })

/** Response of `GET /openapi.json`. */
export const openApi = z.looseObject({ openapi: z.string() }).register(responseSchemas, { id: 'OpenApiDocument' })

export type AboutBody = z.output<typeof about>
export type LivenessBody = z.output<typeof liveness>
export type ReadinessBody = z.output<typeof readiness>
