import type { FastifyInstance } from 'fastify'
import { z } from 'zod'
import { PURPOSES } from '../files/index.ts'
import { OPEN_PATHS } from './auth.ts'
import { addEndpoint } from './routes.ts'
import { chatRequest } from './wire/chat-request.ts'
import { chatCompletion, chatCompletionChunk, usage } from './wire/chat-response.ts'
import { detectRequest, detectResponse } from './wire/detect.ts'
import { errorBody } from './wire/error.ts'
import { deletedFile, file, fileList } from './wire/files.ts'
import { message } from './wire/messages.ts'
import { extendedModel, model, modelList } from './wire/models.ts'
import { multilookRequest } from './wire/multilook-request.ts'
import { multilookCompletion } from './wire/multilook-response.ts'

/** Of the interface, which is not the program's: the contract's own. */
const INTERFACE_VERSION = '1.0.0'

const REQUESTS = {
  ChatCompletionRequest: chatRequest,
  MultilookRequest: multilookRequest,
  DetectRequest: detectRequest,
  Message: message,
}
const RESPONSES = {
  ChatCompletion: chatCompletion,
  ChatCompletionChunk: chatCompletionChunk,
  MultilookCompletion: multilookCompletion,
  Detections: detectResponse,
  Usage: usage,
  Model: model,
  ExtendedModel: extendedModel,
  ModelList: modelList,
  File: file,
  FileList: fileList,
  DeletedFile: deletedFile,
  Error: errorBody,
}

/** `GET /openapi.json`: the schemas that requests are parsed with, described. */
export function addOpenApi(app: FastifyInstance): void {
  const document = openApiDocument()
  addEndpoint(app, { url: OPEN_PATHS.openApi, handlers: { GET: async () => document } })
}

export function openApiDocument(): Record<string, unknown> {
  const extended = {
    name: 'extended',
    in: 'query',
    description: 'Whether to answer with capabilities, modalities and limits.',
    schema: { type: 'boolean', default: false },
  }
  const fileId = { name: 'file_id', in: 'path', required: true, schema: { type: 'string' } }
  const modelId = { name: 'model_id', in: 'path', required: true, schema: { type: 'string' } }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Lookout',
      version: INTERFACE_VERSION,
      description: 'Inference for vision-language models, in the OpenAI chat completions format.',
    },
    security: [{ apiKey: [] }],
    paths: {
      '/v1/chat/completions': {
        post: {
          operationId: 'createChatCompletion',
          summary: 'Reply to a conversation',
          requestBody: { required: true, content: json('ChatCompletionRequest') },
          responses: {
            200: {
              description: 'The reply, or with `stream` its chunks as they come, ending with `data: [DONE]`.',
              content: { ...json('ChatCompletion'), 'text/event-stream': { schema: ref('ChatCompletionChunk') } },
            },
            ...errors(400, 401, 403, 408, 413, 415, 429, 500, 503, 504),
          },
        },
      },
      '/v1/chat/completions/multilook': {
        post: {
          operationId: 'createMultilook',
          summary: 'Answer many independent prompts over one shared context',
          requestBody: { required: true, content: json('MultilookRequest') },
          responses: {
            200: {
              description: 'One result per prompt, in request order; at least one has completions.',
              content: json('MultilookCompletion'),
            },
            ...errors(400, 401, 403, 408, 413, 415, 429, 500, 503, 504),
          },
        },
      },
      '/v1/detect': {
        post: {
          operationId: 'detect',
          summary: 'Find objects in a picture',
          requestBody: { required: true, content: json('DetectRequest') },
          responses: {
            200: {
              description: 'The objects, each with a box or a point in pixels of the upright picture.',
              content: json('Detections'),
            },
            ...errors(400, 401, 403, 408, 413, 415, 429, 500, 503, 504),
          },
        },
      },
      '/v1/models': {
        get: {
          operationId: 'listModels',
          summary: 'The models that are served',
          parameters: [extended],
          responses: { 200: { description: 'The models.', content: json('ModelList') }, ...errors(400, 401, 429) },
        },
      },
      '/v1/models/{model_id}': {
        get: {
          operationId: 'retrieveModel',
          summary: 'One model',
          parameters: [modelId, extended],
          responses: {
            200: {
              description: 'The model.',
              content: { 'application/json': { schema: { anyOf: [ref('ExtendedModel'), ref('Model')] } } },
            },
            ...errors(400, 401, 404, 429),
          },
        },
      },
      ...filePaths(fileId),
    },
    components: {
      securitySchemes: { apiKey: { type: 'http', scheme: 'bearer' } },
      schemas: { ...schemas(REQUESTS, 'input'), ...schemas(RESPONSES, 'output') },
    },
  }
}

function filePaths(fileId: object): Record<string, unknown> {
  const purpose = { type: 'string', enum: PURPOSES }
  const query = (name: string, description: string, schema: object) => ({ name, in: 'query', description, schema })
  const form = {
    type: 'object',
    required: ['file', 'purpose'],
    properties: { file: { type: 'string', format: 'binary' }, purpose },
  }
  return {
    '/v1/files': {
      post: {
        operationId: 'createFile',
        summary: 'Upload an image, a video or a sound; `Content-Length` is required',
        requestBody: { required: true, content: { 'multipart/form-data': { schema: form } } },
        responses: {
          200: { description: 'The file.', content: json('File') },
          ...errors(400, 401, 403, 408, 411, 413, 415, 429, 503),
        },
      },
      get: {
        operationId: 'listFiles',
        summary: 'The files of the organisation',
        parameters: [
          query('after', 'The page begins behind the file of this id.', { type: 'string' }),
          query('limit', 'Most files of a page.', { type: 'integer', minimum: 1, maximum: 10_000, default: 10_000 }),
          query('order', 'By the time of creation.', { type: 'string', enum: ['asc', 'desc'], default: 'desc' }),
          query('purpose', 'Only files of this purpose.', purpose),
        ],
        responses: { 200: { description: 'A page.', content: json('FileList') }, ...errors(400, 401, 403, 429, 503) },
      },
    },
    '/v1/files/{file_id}': {
      get: {
        operationId: 'retrieveFile',
        summary: 'One file',
        parameters: [fileId],
        responses: { 200: { description: 'The file.', content: json('File') }, ...errors(401, 403, 404, 429, 503) },
      },
      delete: {
        operationId: 'deleteFile',
        summary: 'Delete a file',
        parameters: [fileId],
        responses: {
          200: { description: 'It is gone.', content: json('DeletedFile') },
          ...errors(401, 403, 404, 429, 503),
        },
      },
    },
    '/v1/files/{file_id}/content': {
      get: {
        operationId: 'downloadFile',
        summary: 'The bytes of a file, or the part that a `Range` header asks for',
        parameters: [fileId],
        responses: {
          200: { description: 'The bytes, with the type of the file.', content: { '*/*': {} } },
          206: { description: 'The part.', content: { '*/*': {} } },
          ...errors(401, 403, 404, 416, 429, 503),
        },
      },
    },
  }
}

function schemas(named: Readonly<Record<string, z.ZodType>>, io: 'input' | 'output'): Record<string, unknown> {
  const registry = z.registry<{ id: string }>()
  for (const [id, schema] of Object.entries(named)) registry.add(schema, { id })
  const generated = z.toJSONSchema(registry, { uri: (id) => ref(id).$ref, io })
  return Object.fromEntries(Object.entries(generated.schemas).map(([id, { $schema, $id, ...schema }]) => [id, schema]))
}

function ref(id: string): { $ref: string } {
  return { $ref: `#/components/schemas/${id}` }
}

function json(id: string): Record<string, unknown> {
  return { 'application/json': { schema: ref(id) } }
}

function errors(...statuses: readonly number[]): Record<number, unknown> {
  return Object.fromEntries(statuses.map((status) => [status, { description: 'An error.', content: json('Error') }]))
}
