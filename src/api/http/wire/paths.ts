import './about.ts'
import './error.ts'
import './server-status.ts'
import { json, ok, operations } from './describe.ts'

const OPEN = { tag: 'server', limited: false, security: [], errors: [] } as const

/** Paths of the server itself: description, health and load. */
export const SERVER_PATHS = operations({
  'GET /': {
    ...OPEN,
    id: 'describeServer',
    summary: 'What this server is, with links; browsers are redirected to the Studio',
    replies: {
      200: {
        description: 'About the server. If Ollama’s API is on, clients that accept neither HTML nor JSON get a text.',
        content: { ...json('ServerAbout'), 'text/plain': { schema: { type: 'string' } } },
      },
      302: { description: 'Redirect to the Studio.', headers: ['location'] },
    },
  },
  'GET /healthz': {
    ...OPEN,
    id: 'checkLiveness',
    summary: 'Whether the process is alive; also at `/health`, `/v1/health` and `/ping`',
    replies: ok('The process is alive.', json('Liveness')),
  },
  'GET /readyz': {
    ...OPEN,
    id: 'checkReadiness',
    summary: 'Whether the server takes requests',
    replies: {
      200: { description: 'The server takes requests.', content: json('Readiness') },
      503: { description: 'The server does not take requests yet, or is shutting down.', content: json('Readiness') },
    },
  },
  'GET /openapi.json': {
    ...OPEN,
    id: 'retrieveOpenApi',
    summary: 'This OpenAPI document',
    replies: ok('The OpenAPI document.', json('OpenApiDocument')),
  },
  'GET /v1/server': {
    id: 'retrieveServer',
    tag: 'server',
    summary: 'How busy the server is',
    limited: false,
    replies: ok('The server, and the engines of its models.', json('ServerStatus')),
    errors: [401, 503],
  },
})
