import type { FastifyInstance } from 'fastify'
import { z } from 'zod'
import { PURPOSES } from '../files/index.ts'
import { OPEN_PATHS } from './http/auth.ts'
import { addEndpoint } from './http/routes.ts'
import { requestSchemas, responseSchemas } from './http/wire/components.ts'
import { EVENT_NAMES } from './openai/responses/wire/response.ts'
// Loading these modules registers their schemas.
import './openai/wire/chat-request.ts'
import './openai/wire/chat-response.ts'
import './native/wire/detect.ts'
import './http/wire/error.ts'
import './http/wire/server-status.ts'
import './openai/wire/batches.ts'
import './openai/wire/decision-request.ts'
import './openai/wire/decision-response.ts'
import './openai/wire/files.ts'
import './openai/wire/input-tokens.ts'
import './openai/wire/models.ts'
import './openai/responses/wire/input-items.ts'
import './openai/responses/wire/response-request.ts'
import './typesafe/wire/system-one.ts'
import './anthropic/wire/message-request.ts'
import './anthropic/wire/message-response.ts'
import './native/wire/model-pull.ts'
import './native/wire/multilook-input-tokens.ts'
import './native/wire/multilook-request.ts'
import './native/wire/multilook-response.ts'

/** Version of the API contract, which is not the version of the program. */
const INTERFACE_VERSION = '1.0.0'

/** `GET /openapi.json`: describes the API with the schemas that parse its requests. */
export function addOpenApi(app: FastifyInstance): void {
  const document = openApiDocument()
  addEndpoint(app, { url: OPEN_PATHS.openApi, handlers: { GET: async () => document } })
}

export function openApiDocument(): Record<string, unknown> {
  const extended = {
    name: 'extended',
    in: 'query',
    description: 'Whether to include capabilities, modalities and limits.',
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
            ...success('The reply; with `stream`, its chunks as they are generated, followed by `data: [DONE]`.', {
              ...json('ChatCompletion'),
              'text/event-stream': { schema: ref('ChatCompletionChunk') },
            }),
            ...errors(400, 401, 403, 408, 413, 415, 429, 500, 503, 504),
          },
        },
      },
      '/v1/chat/completions/input_tokens': {
        post: {
          operationId: 'countChatInputTokens',
          summary: 'Count the prompt tokens of a chat completion without generating it',
          requestBody: { required: true, content: json('ChatCompletionRequest') },
          responses: {
            ...success('The tokens of the prompt.', json('InputTokens')),
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
            ...success(
              'One result per prompt, in request order; at least one has completions. For a client that accepts ' +
                '`text/event-stream`, an extension: the pieces of all completions as they are generated, each result as ' +
                'soon as its prompt is finished, and the usage, followed by `data: [DONE]`.',
              { ...json('MultilookCompletion'), 'text/event-stream': { schema: { anyOf: MULTILOOK_EVENTS } } },
            ),
            ...errors(400, 401, 403, 408, 413, 415, 429, 500, 503, 504),
          },
        },
      },
      '/v1/chat/completions/multilook/input_tokens': {
        post: {
          operationId: 'countMultilookInputTokens',
          summary: 'Count the prompt tokens of a multilook without generating it',
          requestBody: { required: true, content: json('MultilookRequest') },
          responses: {
            ...success('The tokens of the prompts, and of the context that they share.', json('MultilookInputTokens')),
            ...errors(400, 401, 403, 408, 413, 415, 429, 500, 503, 504),
          },
        },
      },
      ...responsePaths(),
      '/v1/detect': {
        post: {
          operationId: 'detect',
          summary: 'Detect objects in an image',
          requestBody: { required: true, content: json('DetectRequest') },
          responses: {
            ...success('The objects, each with a box or a point in pixels of the upright image.', json('Detections')),
            ...errors(400, 401, 403, 408, 413, 415, 429, 500, 503, 504),
          },
        },
      },
      '/v1/decisions': {
        post: {
          operationId: 'createDecision',
          summary: 'Answer typed questions about one input, with probabilities',
          requestBody: { required: true, content: json('DecisionRequest') },
          responses: {
            ...success('The answers, in the order of the questions.', json('Decision')),
            ...errors(400, 401, 403, 408, 413, 415, 429, 500, 503, 504),
          },
        },
      },
      '/v1/systemone': systemOne('createSystemOne'),
      '/typesafe/v1/systemone': systemOne('createSystemOneBelowPrefix'),
      '/typesafe/v1/models': {
        get: {
          operationId: 'listSystemOneModels',
          summary: 'The models that are served, as TypeSafe’s clients list them',
          responses: { ...success('The models.', json('SystemOneModelList')), ...systemOneErrors(401, 429) },
        },
      },
      '/v1/messages': {
        post: {
          operationId: 'createMessage',
          summary: 'Reply to a conversation, in Anthropic’s shape',
          security: ANTHROPIC_KEYS,
          requestBody: { required: true, content: json('MessageRequest') },
          responses: {
            ...success('The message; with `stream`, its events as they happen, each with its type as the name.', {
              ...json('MessageReply'),
              'text/event-stream': { schema: ref('MessageEvent') },
            }),
            ...messageErrors(400, 401, 403, 404, 408, 413, 415, 429, 500, 503, 504, 529),
          },
        },
      },
      '/v1/messages/count_tokens': {
        post: {
          operationId: 'countMessageTokens',
          summary: 'Count the prompt tokens of a message without generating it',
          security: ANTHROPIC_KEYS,
          requestBody: { required: true, content: json('CountTokensRequest') },
          responses: {
            ...success('The tokens of the prompt.', json('MessageTokens')),
            ...messageErrors(400, 401, 403, 404, 408, 413, 415, 429, 500, 503, 504, 529),
          },
        },
      },
      '/v1/models': {
        get: {
          operationId: 'listModels',
          summary: 'The models that are served; in Anthropic’s shape to clients that send `anthropic-version`',
          parameters: [extended],
          responses: {
            ...success('The models.', {
              'application/json': { schema: { anyOf: [ref('ModelList'), ref('ModelInfoList')] } },
            }),
            ...errors(400, 401, 429),
          },
        },
      },
      '/v1/models/{model_id}': {
        get: {
          operationId: 'retrieveModel',
          summary: 'One model',
          parameters: [modelId, extended],
          responses: {
            ...success('The model.', {
              'application/json': { schema: { anyOf: [ref('ExtendedModel'), ref('Model'), ref('ModelInfo')] } },
            }),
            ...errors(400, 401, 404, 429),
          },
        },
        delete: {
          operationId: 'deleteModel',
          summary: 'Delete a model that was pulled; needs a key of scope `admin`',
          parameters: [modelId],
          responses: {
            ...success('The model is deleted.', json('DeletedModel')),
            ...errors(400, 401, 403, 404, 409, 429),
          },
        },
      },
      '/v1/models/pull': {
        post: {
          operationId: 'pullModel',
          summary: 'Fetch a model from the hub and serve it; needs a key of scope `admin`',
          requestBody: { required: true, content: json('ModelPullRequest') },
          responses: {
            ...success('Events of the pull, of which `done` is the last, followed by `data: [DONE]`.', {
              'text/event-stream': { schema: ref('ModelPullEvent') },
            }),
            ...errors(400, 401, 403, 408, 409, 413, 415, 429, 503, 507),
          },
        },
      },
      ...filePaths(fileId),
      ...batchPaths(),
      '/v1/server': {
        get: {
          operationId: 'retrieveServer',
          summary: 'How busy the server is',
          responses: { ...success('The server, and the engines of its models.', json('ServerStatus')), ...errors(401) },
        },
      },
    },
    components: {
      securitySchemes: {
        apiKey: { type: 'http', scheme: 'bearer' },
        anthropicKey: { type: 'apiKey', in: 'header', name: 'x-api-key' },
      },
      headers: HEADERS,
      schemas: { ...schemas(requestSchemas, 'input'), ...schemas(responseSchemas, 'output') },
    },
  }
}

const MULTILOOK_EVENTS = ['MultilookDelta', 'AnsweredPrompt', 'FailedPrompt', 'MultilookEnd'].map(ref)
const BINARY = { schema: { type: 'string', format: 'binary' } }
/** Bytes of any type. Client generators that support bytes recognise them only as an octet stream. */
const BYTES = { 'application/octet-stream': BINARY, '*/*': BINARY }

/** Keys in either header. */
const ANTHROPIC_KEYS = [{ apiKey: [] }, { anthropicKey: [] }]

/** TypeSafe's convention: mistakes in a body have status 422. */
function systemOne(operationId: string): object {
  return {
    post: {
      operationId,
      summary: 'Answer named questions about one state, with probabilities',
      requestBody: {
        required: true,
        content: { ...json('SystemOneRequest'), 'multipart/form-data': { schema: ref('SystemOneForm') } },
      },
      responses: {
        ...success('The answers, by the names of their questions.', json('SystemOneResponse')),
        ...systemOneErrors(401, 403, 408, 413, 415, 422, 429, 500, 503, 504),
      },
    },
  }
}

function messageErrors(...statuses: readonly number[]): Record<number, unknown> {
  return errorsOf('MessageError', statuses)
}

function systemOneErrors(...statuses: readonly number[]): Record<number, unknown> {
  return errorsOf('SystemOneError', statuses)
}

function filePaths(fileId: object): Record<string, unknown> {
  const purpose = { type: 'string', enum: PURPOSES }
  const query = (name: string, description: string, schema: object) => ({ name, in: 'query', description, schema })
  return {
    '/v1/files': {
      post: {
        operationId: 'createFile',
        summary: 'Upload an image, video or audio file; `Content-Length` is required',
        requestBody: { required: true, content: { 'multipart/form-data': { schema: ref('FileUpload') } } },
        responses: {
          ...success('The file.', json('File')),
          ...errors(400, 401, 403, 408, 411, 413, 415, 429, 503),
        },
      },
      get: {
        operationId: 'listFiles',
        summary: 'The files of the organisation',
        parameters: [
          query('after', 'Start after the file with this id.', { type: 'string' }),
          query('limit', 'Most files in a page.', { type: 'integer', minimum: 1, maximum: 10_000, default: 10_000 }),
          query('order', 'Sort order by creation time.', { type: 'string', enum: ['asc', 'desc'], default: 'desc' }),
          query('purpose', 'Only files with this purpose.', purpose),
        ],
        responses: { ...success('A page of files.', json('FileList')), ...errors(400, 401, 403, 429, 503) },
      },
    },
    '/v1/files/{file_id}': {
      get: {
        operationId: 'retrieveFile',
        summary: 'One file',
        parameters: [fileId],
        responses: { ...success('The file.', json('File')), ...errors(401, 403, 404, 429, 503) },
      },
      delete: {
        operationId: 'deleteFile',
        summary: 'Delete a file',
        parameters: [fileId],
        responses: {
          ...success('The file is deleted.', json('DeletedFile')),
          ...errors(401, 403, 404, 429, 503),
        },
      },
    },
    '/v1/files/{file_id}/content': {
      get: {
        operationId: 'downloadFile',
        summary: 'The bytes of a file, or the part that a `Range` header requests',
        parameters: [fileId],
        responses: {
          ...success('The bytes, with the content type of the file.', BYTES),
          ...success('The requested part.', BYTES, 206),
          ...errors(401, 403, 404, 416, 429, 503),
        },
      },
    },
  }
}

function responsePaths(): Record<string, unknown> {
  const responseId = { name: 'response_id', in: 'path', required: true, schema: { type: 'string' } }
  const query = (name: string, description: string, schema: object) => ({ name, in: 'query', description, schema })
  const stored = errors(401, 403, 404, 429, 503)
  return {
    '/v1/responses': {
      post: {
        operationId: 'createResponse',
        summary: 'Reply to a conversation, which the server may remember',
        requestBody: { required: true, content: json('ResponseRequest') },
        responses: {
          ...success('The response; with `stream`, its events as they happen, followed by `data: [DONE]`.', {
            ...json('Response'),
            'text/event-stream': { schema: { anyOf: EVENT_NAMES.map(ref) } },
          }),
          ...errors(400, 401, 403, 408, 413, 415, 429, 500, 503, 504),
        },
      },
    },
    '/v1/responses/input_tokens': {
      post: {
        operationId: 'countResponseInputTokens',
        summary: 'Count the prompt tokens of a response without generating it',
        requestBody: { required: true, content: json('ResponsePrompt') },
        responses: {
          ...success('The tokens of the prompt.', json('InputTokens')),
          ...errors(400, 401, 403, 408, 413, 415, 429, 500, 503, 504),
        },
      },
    },
    '/v1/responses/{response_id}': {
      get: {
        operationId: 'retrieveResponse',
        summary: 'A stored response',
        parameters: [responseId],
        responses: { ...success('The response.', json('Response')), ...errors(400), ...stored },
      },
      delete: {
        operationId: 'deleteResponse',
        summary: 'Delete a stored response',
        parameters: [responseId],
        responses: { ...success('The response is deleted.', json('DeletedResponse')), ...stored },
      },
    },
    '/v1/responses/{response_id}/input_items': {
      get: {
        operationId: 'listResponseInputItems',
        summary: 'The items that a stored response is an answer to',
        parameters: [
          responseId,
          query('after', 'Start after the item with this id.', { type: 'string' }),
          query('limit', 'Most items in a page.', { type: 'integer', minimum: 1, maximum: 100, default: 20 }),
          query('order', 'Newest first or oldest first.', { type: 'string', enum: ['asc', 'desc'], default: 'desc' }),
        ],
        responses: { ...success('A page of items.', json('ResponseInputItemList')), ...errors(400), ...stored },
      },
    },
    '/v1/responses/{response_id}/cancel': {
      post: {
        operationId: 'cancelResponse',
        summary: 'Rejected: only responses in the background could be cancelled',
        parameters: [responseId],
        responses: { ...errors(400), ...stored },
      },
    },
  }
}

function batchPaths(): Record<string, unknown> {
  const batchId = { name: 'batch_id', in: 'path', required: true, schema: { type: 'string' } }
  const query = (name: string, description: string, schema: object) => ({ name, in: 'query', description, schema })
  return {
    '/v1/batches': {
      post: {
        operationId: 'createBatch',
        summary: 'Run the requests in a file of purpose `batch`, behind all others',
        requestBody: { required: true, content: json('BatchRequest') },
        responses: {
          ...success('The batch, which is validated and run from now on.', json('Batch')),
          ...errors(400, 401, 403, 408, 413, 415, 429, 503),
        },
      },
      get: {
        operationId: 'listBatches',
        summary: 'The batches of the organisation, newest first',
        parameters: [
          query('after', 'Start after the batch with this id.', { type: 'string' }),
          query('limit', 'Most batches in a page.', { type: 'integer', minimum: 1, maximum: 100, default: 20 }),
        ],
        responses: { ...success('A page of batches.', json('BatchList')), ...errors(400, 401, 403, 429, 503) },
      },
    },
    '/v1/batches/{batch_id}': {
      get: {
        operationId: 'retrieveBatch',
        summary: 'One batch',
        parameters: [batchId],
        responses: { ...success('The batch.', json('Batch')), ...errors(401, 403, 404, 503) },
      },
    },
    '/v1/batches/{batch_id}/cancel': {
      post: {
        operationId: 'cancelBatch',
        summary: 'Stop a batch; what has been run is in its output',
        parameters: [batchId],
        responses: { ...success('The batch.', json('Batch')), ...errors(400, 401, 403, 404, 429, 503) },
      },
    },
  }
}

function schemas(registry: typeof requestSchemas, io: 'input' | 'output'): Record<string, unknown> {
  const generated = z.toJSONSchema(registry, { uri: (id) => ref(id).$ref, io })
  return Object.fromEntries(Object.entries(generated.schemas).map(([id, { $schema, $id, ...schema }]) => [id, schema]))
}

function ref(id: string): { $ref: string } {
  return { $ref: `#/components/schemas/${id}` }
}

function json(id: string): Record<string, unknown> {
  return { 'application/json': { schema: ref(id) } }
}

/** Headers that responses have in addition to the usual ones. */
const HEADERS = {
  TraceId: header('The id of this response, as in the server’s log.', { type: 'string' }),
  RequestId: header('The same id, under the name that OpenAI’s clients read.', { type: 'string' }),
  RetryAfter: header('Seconds after which to try again.', { type: 'integer', minimum: 0 }),
  RateLimit: header('Requests per minute that the organisation may make to such endpoints.', { type: 'integer' }),
  RateLimitRemaining: header('Requests that are left.', { type: 'integer' }),
  RateLimitReset: header('Time until the full limit is available again, such as 12.500s.', { type: 'string' }),
}

function header(description: string, schema: object): object {
  return { description, schema }
}

/** The headers of a response with this status. Those about rate limits are absent when limits are off. */
function headers(status: number): Record<string, unknown> {
  const reference = (name: keyof typeof HEADERS) => ({ $ref: `#/components/headers/${name}` })
  return {
    'x-trace-id': reference('TraceId'),
    'x-request-id': reference('RequestId'),
    ...(status === 429 || status === 503 ? { 'retry-after': reference('RetryAfter') } : {}),
    'x-ratelimit-limit-requests': reference('RateLimit'),
    'x-ratelimit-remaining-requests': reference('RateLimitRemaining'),
    'x-ratelimit-reset-requests': reference('RateLimitReset'),
  }
}

function success(description: string, content: object, status = 200): Record<number, unknown> {
  return { [status]: { description, headers: headers(status), content } }
}

function errors(...statuses: readonly number[]): Record<number, unknown> {
  return errorsOf('Error', statuses)
}

function errorsOf(id: string, statuses: readonly number[]): Record<number, unknown> {
  return Object.fromEntries(
    statuses.map((status) => [status, { description: 'An error.', headers: headers(status), content: json(id) }]),
  )
}
