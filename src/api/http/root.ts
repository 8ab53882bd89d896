import type { FastifyInstance } from 'fastify'
import { version } from '../../lib/version.ts'
import { OPEN_PATHS } from './auth.ts'
import { addEndpoint } from './routes.ts'

/** `GET /`: what this is and where to go on, for whoever opens the address in a browser. The contract has no such path. */
export function addRoot(app: FastifyInstance): void {
  addEndpoint(app, {
    url: OPEN_PATHS.root,
    handlers: {
      GET: async () => ({
        name: 'Lookout',
        version: await version(),
        description: 'Inference for vision-language models, in the OpenAI chat completions format',
        documentation: 'README.md and docs/ in the repository',
        links: {
          openapi: OPEN_PATHS.openApi,
          health: OPEN_PATHS.live,
          ready: OPEN_PATHS.ready,
          models: '/v1/models',
        },
        authentication: 'Every path under /v1 needs the header Authorization: Bearer <API key>',
      }),
    },
  })
}
