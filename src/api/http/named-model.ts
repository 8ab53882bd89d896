import type { ModelRegistry, ServedModel } from '../../inference/registry.ts'
import { invalidRequest } from '../../lib/errors.ts'

/** The model that a request names. @throws ApiError 400 when it does not exist. */
export function namedModel(registry: ModelRegistry, id: string): ServedModel {
  const model = registry.find(id)
  if (!model) throw invalidRequest(`Model '${id.slice(0, 200)}' does not exist`, null)
  return model
}
