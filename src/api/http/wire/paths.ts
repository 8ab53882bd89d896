import './about.ts'
import './error.ts'
import './server-status.ts'
import { json, ok, operation, type Paths } from './describe.ts'

const OPEN = { tag: 'server', limited: false, security: [], errors: [] } as const

/** Paths of the server itself: description, health and load. */
export const SERVER_PATHS: Paths = {
  '/': {
    get: operation({
      ...OPEN,
      id: 'describeServer',
      summary: 'What this is, and where to go on; browsers are sent to the Studio',
      replies: {
        200: {
          description: 'The server; where Ollama’s API is on, a text for its clients, which ask for no type.',
          content: { ...json('ServerAbout'), 'text/plain': { schema: { type: 'string' } } },
        },
        302: { description: 'To the Studio.', headers: ['location'] },
      },
    }),
  },
  '/healthz': {
    get: operation({
      ...OPEN,
      id: 'checkLiveness',
      summary: 'Whether the process is alive; also at `/health`, `/v1/health` and `/ping`',
      replies: ok('It is.', json('Liveness')),
    }),
  },
  '/readyz': {
    get: operation({
      ...OPEN,
      id: 'checkReadiness',
      summary: 'Whether the server takes requests',
      replies: {
        200: { description: 'It does.', content: json('Readiness') },
        503: { description: 'Not yet, or no longer.', content: json('Readiness') },
      },
    }),
  },
  '/openapi.json': {
    get: operation({
      ...OPEN,
      id: 'retrieveOpenApi',
      summary: 'This description of the interface',
      replies: ok('The description.', json('OpenApiDocument')),
    }),
  },
  '/v1/server': {
    get: operation({
      id: 'retrieveServer',
      tag: 'server',
      summary: 'How busy the server is',
      limited: false,
      replies: ok('The server, and the engines of its models.', json('ServerStatus')),
      errors: [401, 503],
    }),
  },
}
