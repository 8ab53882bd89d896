import { z } from 'zod'
import { responseSchemas, responses } from './components.ts'

/** Response of `GET /` to clients other than browsers. */
export const about = responses.object('ServerAbout', {
  name: z.literal('Lookout'),
  version: z.string(),
  description: z.string(),
  documentation: z.string(),
  links: z.record(z.string(), z.string()).register(responseSchemas, { id: 'ServerLinks' }),
  authentication: z.string(),
})

/** Responses of `GET /healthz` and `GET /readyz`. */
export const liveness = responses.object('Liveness', { status: z.literal('ok') })
export const readiness = responses.object('Readiness', { status: z.enum(['ready', 'starting', 'closing']) })

/** Response of `GET /openapi.json`. */
export const openApi = z.looseObject({ openapi: z.string() }).register(responseSchemas, { id: 'OpenApiDocument' })

export type AboutBody = z.output<typeof about>
export type LivenessBody = z.output<typeof liveness>
export type ReadinessBody = z.output<typeof readiness>
