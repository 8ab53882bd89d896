import { createHash } from 'node:crypto'
import { stat } from 'node:fs/promises'
import { resolve } from 'node:path'
import type { ModelCatalog } from '../../../inference/catalog/model-catalog.ts'
import type { ServedModel } from '../../../inference/catalog/registry.ts'
import { invalidRequest, say } from '../../../lib/errors/errors.ts'
import type { ModelBody, ModelDetailsBody, RunningModelBody, ShownModelBody } from './wire/responses.ts'

/** A tag that Ollama's clients add to names without one. */
const LATEST = ':latest'

/** @throws ApiError 404 for an unknown name, 400 for an empty one. */
export async function findModel(models: ModelCatalog, name: string): Promise<ServedModel> {
  if (name === '') throw invalidRequest(say`${['model']} is required`, 'model')
  const plain = name.endsWith(LATEST) ? name.slice(0, -LATEST.length) : name
  const model = (await models.find(name)) ?? (await models.find(plain))
  if (model) return model
  throw models.refusalOf(name) ?? invalidRequest(`model '${name.slice(0, 200)}' not found`, null, { status: 404 })
}

export async function toModelBody(model: ServedModel): Promise<ModelBody> {
  const { id, served } = model
  return {
    name: id,
    model: id,
    modified_at: new Date(served.created * 1000).toISOString(),
    size: await sizeOf(model),
    // A digest of the name: clients cannot fetch a model by it here.
    digest: createHash('sha256').update(id).digest('hex'),
    details: detailsOf(model),
  }
}

/** Converts a loaded model for `/api/ps`. It stays loaded until the memory is needed. */
export async function toRunning(model: ServedModel): Promise<RunningModelBody> {
  const { modified_at: _, ...body } = await toModelBody(model)
  return { ...body, expires_at: NEVER, size_vram: 0, context_length: model.contextTokens }
}

const NEVER = '9999-12-31T23:59:59Z'

export function toShown(model: ServedModel): ShownModelBody {
  const { served, engine, contextTokens } = model
  const details = detailsOf(model)
  return {
    license: '',
    modelfile: '',
    parameters: '',
    template: engine.info.chatTemplate ?? '',
    details,
    model_info: {
      'general.architecture': details.family,
      'general.basename': served.name,
      [`${details.family}.context_length`]: contextTokens,
      // Some clients list no models where it is missing.
      [`${details.family}.embedding_length`]: engine.info.embedding?.dimensions ?? engine.info.embeddingLength ?? 0,
    },
    capabilities: capabilitiesOf(model),
    modified_at: new Date(served.created * 1000).toISOString(),
  }
}

function capabilitiesOf({ served, card }: ServedModel): string[] {
  if (card.embedding !== undefined) return served.capabilities.includes('embeddings') ? ['embedding'] : []
  return [
    'completion',
    ...(served.modalities.includes('image') ? ['vision'] : []),
    ...(served.modalities.includes('audio') ? ['audio'] : []),
    ...(served.capabilities.includes('tool_calling') ? ['tools'] : []),
    ...(served.reasoning ? ['thinking'] : []),
  ]
}

function detailsOf({ card }: ServedModel): ModelDetailsBody {
  const family = card.family ?? 'unknown'
  const format = card.engine.type === 'local' ? 'gguf' : ''
  return { parent_model: '', format, family, families: [family], parameter_size: '', quantization_level: '' }
}

/** Returns the bytes of the files; 0 for a model on another server. */
async function sizeOf({ card: { engine, directory } }: ServedModel): Promise<number> {
  if (engine.type !== 'local') return 0
  const files = [engine.model, engine.projector].filter((file) => typeof file === 'string')
  const sizes = files.map((file) =>
    stat(resolve(directory, file)).then(
      ({ size }) => size,
      () => 0,
    ),
  )
  return (await Promise.all(sizes)).reduce((sum, size) => sum + size, 0)
}
