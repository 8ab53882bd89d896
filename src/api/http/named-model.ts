import type { ModelCatalog } from '../../inference/model-catalog.ts'
import type { ServedModel } from '../../inference/registry.ts'
import { invalidRequest } from '../../lib/errors.ts'

/** The model that a request names. @throws ApiError 400 when it does not exist, or can never be loaded. */
export async function namedModel(models: ModelCatalog, id: string): Promise<ServedModel> {
  const model = await models.find(id)
  if (!model) throw models.refusalOf(id) ?? invalidRequest(`Model '${id.slice(0, 200)}' does not exist`, null)
  return model
}
