import type { FastifyInstance } from 'fastify'
import type { Compatibility } from '../../config/compatibility.ts'
import type { ModelPulls } from '../../hub/model-pulls.ts'
import type { ModelCatalog } from '../../inference/catalog/model-catalog.ts'
import type { ServedModel } from '../../inference/catalog/registry.ts'
import { type ApiError, invalidRequest } from '../../lib/errors/errors.ts'
import { isDecodable } from '../../media/decoding/ffmpeg-package.ts'
import { MODEL_NOT_FOUND } from '../http/named-model.ts'
import { queryBoolean } from '../http/query.ts'
import { addEndpoint } from '../http/routes.ts'
import type { DeletedModelBody, ExtendedModelBody, ModelBody } from './wire/models.ts'

export interface ModelsOptions {
  readonly models: ModelCatalog
  readonly pulls: ModelPulls
  readonly compatibility: Compatibility
}

/** `GET /v1/models`, `GET /v1/models/{model_id}`, and `DELETE` of the same, which the contract does not have. */
export function addModels(app: FastifyInstance, { models, pulls, compatibility }: ModelsOptions): void {
  addEndpoint(app, {
    url: '/v1/models',
    bucket: 'models',
    handlers: {
      GET: async (request) => {
        const describe = describer(request.query, compatibility)
        return { object: 'list', data: (await models.list()).map(describe) }
      },
    },
  })
  addEndpoint(app, {
    url: '/v1/models/:model_id',
    bucket: 'models',
    scope: { DELETE: 'admin' },
    handlers: {
      GET: async (request) => {
        const describe = describer(request.query, compatibility)
        const { model_id: id } = request.params as { model_id: string }
        const model = await models.find(id)
        if (!model) throw modelNotFound(id)
        return describe(model)
      },
      DELETE: (request) => deleteModel((request.params as { model_id: string }).model_id, models, pulls),
    },
  })
}

/** Removes a model that was pulled or added. */
async function deleteModel(id: string, models: ModelCatalog, pulls: ModelPulls): Promise<DeletedModelBody> {
  const model = await models.find(id)
  if (model !== undefined && !models.isStored(model)) {
    throw invalidRequest(`Model '${model.id}' is one of the server's settings and cannot be deleted`, 'model')
  }
  // The model is no longer served when its files are deleted: requests that wait for it to load get an error.
  const removal = await pulls.remove(model?.id ?? id, () => models.refresh())
  if (removal === null) throw modelNotFound(id)
  return { id: removal.card.ids[0]!, object: 'model', deleted: true, freed_bytes: removal.freedBytes }
}

function describer(
  query: unknown,
  compatibility: Compatibility,
): (model: ServedModel) => ModelBody | ExtendedModelBody {
  if (queryBoolean(query, 'extended')) return (model) => toExtendedModel(model, compatibility)
  return compatibility === 'openai' ? toOpenAiModel : toModel
}

function modelNotFound(id: string): ApiError {
  return invalidRequest(`The model '${id.slice(0, 200)}' does not exist`, 'model', MODEL_NOT_FOUND)
}

function toModel({ served, card }: ServedModel): ModelBody {
  return { id: served.id, object: 'model', created: served.created, owned_by: card.ownedBy }
}

/** Clients of Mistral's API accept no model without these fields. Frigate and others read vLLM's `max_model_len`. */
function toOpenAiModel(model: ServedModel): ModelBody {
  const { capabilities, modalities, reasoning } = model.served
  const writes = model.card.embedding === undefined
  const [sees, hears] = [writes && modalities.includes('image'), modalities.includes('audio')]
  const offered = {
    ...{ completion_chat: writes, function_calling: capabilities.includes('tool_calling'), reasoning },
    ...{ vision: sees, ocr: sees, audio: hears, audio_transcription: hears },
  }
  const context = { max_context_length: model.contextTokens, max_model_len: model.contextTokens }
  return { ...toModel(model), type: 'base', ...context, capabilities: offered }
}

/** Converts a model. The fields have the order of clients' fixtures. Prices are in credits, as budgets are. */
function toExtendedModel(model: ServedModel, compatibility: Compatibility): ExtendedModelBody {
  const { served, engine } = model
  const numerics = served.adapter === undefined ? engine.numerics : engine.numerics?.adapters?.[served.adapter]
  return {
    ...toModel(model),
    name: served.name,
    capabilities: capabilitiesOf(served, compatibility),
    modalities: served.modalities.filter(isDecodable),
    output_formats: served.outputFormats,
    sampling_parameters: model.card.embedding === undefined ? SAMPLING : [],
    reasoning: { supported: served.reasoning, always_enabled: false },
    max_context_tokens: model.contextTokens,
    max_output_tokens: model.outputTokens,
    ...(served.description === undefined ? {} : { description: served.description }),
    credits_per_million_input_tokens: served.credits.input,
    credits_per_million_output_tokens: served.credits.output,
    credits_per_million_cache_read_tokens: served.credits.cacheRead,
    early_access: false,
    ...(numerics && { fingerprint: numerics.fingerprint, fingerprint_parts: numerics.parts }),
  }
}

const SAMPLING = ['temperature', 'top_p', 'top_k', 'frequency_penalty', 'presence_penalty']

/** OpenAI capabilities that each capability of a card implies. The contract lacks them. */
const BEYOND: Readonly<Record<string, string>> = {
  response_format_json_schema: 'response_format_json_object',
  tool_calling: 'tool_choice_required',
}

function capabilitiesOf({ capabilities }: ServedModel['served'], compatibility: Compatibility): string[] {
  if (compatibility === 'contract') return capabilities
  return [...capabilities, ...capabilities.flatMap((name) => BEYOND[name] ?? [])]
}
