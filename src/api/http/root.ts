import type { FastifyInstance } from 'fastify'
import { version } from '../../lib/version.ts'
import { OPEN_PATHS } from './auth.ts'
import { addEndpoint } from './routes.ts'

/**
 * `GET /`: sends browsers on to the Studio, and tells others what this is and where to go on. The contract has no such path.
 * @param hasStudio whether there is a page to send browsers to.
 */
export function addRoot(app: FastifyInstance, hasStudio: boolean): void {
  addEndpoint(app, {
    url: OPEN_PATHS.root,
    handlers: {
      GET: async (request, reply) => {
        reply.header('vary', 'Accept')
        if (hasStudio && request.headers.accept?.includes('text/html')) return reply.redirect(OPEN_PATHS.studio)
        return describeServer(hasStudio)
      },
    },
  })
}

async function describeServer(hasStudio: boolean): Promise<object> {
  return {
    name: 'Lookout',
    version: await version(),
    description: 'Inference for vision-language models, in the OpenAI chat completions format',
    documentation: 'README.md and docs/ in the repository',
    links: {
      ...(hasStudio ? { studio: OPEN_PATHS.studio } : {}),
      openapi: OPEN_PATHS.openApi,
      health: OPEN_PATHS.live,
      ready: OPEN_PATHS.ready,
      models: '/v1/models',
    },
    authentication: 'Every path under /v1 needs the header Authorization: Bearer <API key>',
  }
}
