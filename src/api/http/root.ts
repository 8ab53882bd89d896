import type { FastifyInstance } from 'fastify'
import { version } from '../../lib/version.ts'
import { OPEN_PATHS } from './access/auth.ts'
import { addEndpoint } from './routes.ts'
import type { AboutBody } from './wire/about.ts'

interface RootOptions {
  readonly hasStudio: boolean
  readonly hasReference: boolean
  readonly ollama: boolean
}

/**
 * `GET /`: redirects browsers to the Studio, and tells other clients what this server is and where to continue. The contract
 * has no such path. Ollama's clients look for a text there, and accept neither HTML nor JSON explicitly.
 */
export function addRoot(app: FastifyInstance, options: RootOptions): void {
  const { hasStudio, ollama } = options
  addEndpoint(app, {
    url: OPEN_PATHS.root,
    handlers: {
      GET: async (request, reply) => {
        reply.header('vary', 'Accept')
        const { accept = '' } = request.headers
        if (hasStudio && accept.includes('text/html')) return reply.redirect(OPEN_PATHS.studio)
        if (ollama && !/text\/html|application\/json/.test(accept)) return reply.type('text/plain').send(OLLAMA)
        return describeServer(options)
      },
    },
  })
}

/** Clients compare this text. */
const OLLAMA = 'Ollama is running'

async function describeServer({ hasStudio, hasReference }: RootOptions): Promise<AboutBody> {
  return {
    name: 'Lookout',
    version: await version(),
    description: 'Inference for vision-language models, in the OpenAI chat completions format',
    documentation: 'README.md and docs/ in the repository',
    links: {
      ...(hasStudio ? { studio: OPEN_PATHS.studio } : {}),
      ...(hasReference ? { docs: OPEN_PATHS.reference, guide: `${OPEN_PATHS.reference}/guide/index.html` } : {}),
      openapi: OPEN_PATHS.openApi,
      health: OPEN_PATHS.live,
      ready: OPEN_PATHS.ready,
      models: '/v1/models',
    },
    authentication: 'Every path under /v1 but /v1/health needs the header Authorization: Bearer <API key>',
  }
}
