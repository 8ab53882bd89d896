import type { FastifyInstance } from 'fastify'
import { OPEN_PATHS } from './http/access/auth.ts'
import { addEndpoint } from './http/routes.ts'
import { schemasOf } from './http/wire/component-schemas.ts'
import { HEADERS, PARAMETERS, TAGS } from './http/wire/describe.ts'
import { SERVER_PATHS } from './http/wire/paths.ts'
import { NATIVE_PATHS } from './native/wire/paths.ts'
import { WATCH_PATHS } from './native/wire/watch-paths.ts'
import { OPENAI_PATHS } from './openai/wire/paths.ts'
import { ANTHROPIC_PATHS } from './surfaces/anthropic/wire/paths.ts'
import { MISTRAL_PATHS } from './surfaces/mistral/wire/paths.ts'
import { OLLAMA_PATHS } from './surfaces/ollama/wire/paths.ts'
import { CHAT_PATHS } from './surfaces/openai/wire/paths.ts'
import { RESPONSE_PATHS } from './surfaces/responses/wire/paths.ts'
import { TYPESAFE_PATHS } from './surfaces/typesafe/wire/paths.ts'

/** Version of the API contract, which is not the version of the program. */
const INTERFACE_VERSION = '1.0.0'

export interface OpenApiOptions {
  /** Whether the server serves Ollama's API. */
  readonly ollama: boolean
}

/**
 * `GET /openapi.json`: describes the API with the schemas that parse its requests. It is built on the first request,
 * because that takes longer than adding all other endpoints.
 */
export function addOpenApi(app: FastifyInstance, options: OpenApiOptions): void {
  let text: string | null = null
  addEndpoint(app, {
    url: OPEN_PATHS.openApi,
    handlers: {
      GET: async (_request, reply) => {
        text ??= JSON.stringify(openApiDocument(options))
        return reply.type('application/json; charset=utf-8').send(text)
      },
    },
  })
}

export function openApiDocument({ ollama }: OpenApiOptions): Record<string, unknown> {
  const paths = {
    ...CHAT_PATHS,
    ...OPENAI_PATHS,
    ...NATIVE_PATHS,
    ...WATCH_PATHS,
    ...RESPONSE_PATHS,
    ...MISTRAL_PATHS,
    ...TYPESAFE_PATHS,
    ...ANTHROPIC_PATHS,
    ...(ollama ? OLLAMA_PATHS : {}),
    ...SERVER_PATHS,
  }
  const { ollama: ollamaTag, ...usualTags } = TAGS
  const tags = Object.values(ollama ? { ...usualTags, ollamaTag } : usualTags)
  return {
    openapi: '3.1.0',
    info: {
      title: 'Lookout',
      version: INTERFACE_VERSION,
      description: 'Inference for vision-language models, in the OpenAI chat completions format.',
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers: [{ url: '/', description: 'The server that serves this document.' }],
    tags: tags.map(([name, description]) => ({ name, description })),
    security: [{ apiKey: [] }],
    paths,
    components: {
      securitySchemes: {
        apiKey: { type: 'http', scheme: 'bearer', description: 'An API key of the server.' },
        anthropicKey: { type: 'apiKey', in: 'header', name: 'x-api-key', description: 'The same key.' },
      },
      headers: HEADERS,
      parameters: PARAMETERS,
      schemas: schemasOf(paths),
    },
  }
}
