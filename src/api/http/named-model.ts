import type { ModelCatalog } from '../../inference/catalog/model-catalog.ts'
import type { ServedModel } from '../../inference/catalog/registry.ts'
import { type ApiError, invalidRequest } from '../../lib/errors/errors.ts'

/**
 * Returns the model that a request names.
 * @param missing the error for a model that does not exist; 400 by default.
 * @throws ApiError 400 when the model can never be loaded; the error of `missing` when it does not exist.
 */
export async function namedModel(
  models: ModelCatalog,
  id: string,
  missing: (id: string) => ApiError = doesNotExist,
): Promise<ServedModel> {
  const model = await models.find(id)
  if (!model) throw models.refusalOf(id) ?? missing(id)
  return model
}

export const MODEL_NOT_FOUND = { status: 404, code: 'model_not_found' } as const

function doesNotExist(id: string): ApiError {
  return invalidRequest(`Model '${id.slice(0, 200)}' does not exist`, null)
}
