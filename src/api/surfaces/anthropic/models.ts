import type { FastifyInstance } from 'fastify'
import type { ModelCatalog } from '../../../inference/catalog/model-catalog.ts'
import type { ServedModel } from '../../../inference/catalog/registry.ts'
import { type ApiError, invalidRequest } from '../../../lib/errors/errors.ts'
import { MODEL_NOT_FOUND } from '../../http/named-model.ts'
import { addEndpoint } from '../../http/routes.ts'
import type { ModelInfoBody, ModelInfoListBody } from './wire/message-response.ts'

/** The maximum and the default number of models in a page. */
const MOST = 1000
const USUAL = 20

/** `GET /v1/models` and `GET /v1/models/{model_id}` for clients that send `anthropic-version`: others get the contract's. */
export function addAnthropicModels(app: FastifyInstance, models: ModelCatalog): void {
  const shared = { bucket: 'models', keyHeader: 'x-api-key', convention: 'anthropic' } as const
  addEndpoint(app, {
    ...shared,
    url: '/v1/models',
    handlers: { GET: async ({ query }) => page(await models.list(), query as Record<string, unknown>) },
  })
  addEndpoint(app, {
    ...shared,
    url: '/v1/models/:model_id',
    handlers: {
      GET: async (request) => {
        const { model_id: id } = request.params as { model_id: string }
        const model = await models.find(id)
        if (!model) throw modelNotFound(id)
        return toModelInfo(model)
      },
    },
  })
}

export function modelNotFound(id: string): ApiError {
  return invalidRequest(`Model '${id.slice(0, 200)}' does not exist`, null, MODEL_NOT_FOUND)
}

function page(
  models: readonly ServedModel[],
  { limit, after_id: after, before_id: before }: Record<string, unknown>,
): ModelInfoListBody {
  const size = limit === undefined ? USUAL : Number(limit)
  if (!Number.isInteger(size) || size < 1 || size > MOST) {
    throw invalidRequest(`expected an integer from 1 to ${MOST}`, 'limit')
  }
  const start = after === undefined ? 0 : placeOf(models, after, 'after_id') + 1
  const end = before === undefined ? models.length : placeOf(models, before, 'before_id')
  const left = models.slice(start, end)
  // A page before a model holds its nearest predecessors.
  const shown = before === undefined ? left.slice(0, size) : left.slice(-size)
  return {
    data: shown.map(toModelInfo),
    has_more: shown.length < left.length,
    first_id: shown[0]?.id ?? null,
    last_id: shown.at(-1)?.id ?? null,
  }
}

function placeOf(models: readonly ServedModel[], id: unknown, param: string): number {
  const place = models.findIndex((model) => model.id === id)
  if (place === -1) throw invalidRequest('there is no such model', param)
  return place
}

function toModelInfo({ served, contextTokens, outputTokens }: ServedModel): ModelInfoBody {
  return {
    type: 'model',
    id: served.id,
    display_name: served.name,
    created_at: new Date(served.created * 1000).toISOString(),
    max_input_tokens: contextTokens,
    max_tokens: outputTokens,
    lifecycle: 'active',
    // Typed clients have these fields, and some reject a model that lacks one.
    ...{ capabilities: null, deprecated_at: null, line: null, retires_at: null },
  }
}
