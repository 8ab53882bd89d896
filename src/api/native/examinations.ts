import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { ModelCatalog } from '../../inference/catalog/model-catalog.ts'
import type { ServedModel } from '../../inference/catalog/registry.ts'
import { type ApiError, invalidRequest } from '../../lib/errors/errors.ts'
import { type Examinations, toExaminationBody } from '../http/examinations.ts'
import { MODEL_NOT_FOUND, namedModel } from '../http/named-model.ts'
import { addEndpoint } from '../http/routes.ts'
import type { ModelExaminationBody } from '../http/wire/server-status.ts'

export interface ExaminationsOptions {
  readonly models: ModelCatalog
  readonly examinations: Examinations
}

/** `POST` and `DELETE /v1/models/{model_id}/examination`, for the operator's keys. The contract has no such path. */
export function addExaminations(app: FastifyInstance, { models, examinations }: ExaminationsOptions): void {
  addEndpoint(app, {
    url: '/v1/models/:model_id/examination',
    bucket: 'models',
    scope: 'admin',
    handlers: {
      POST: async (request): Promise<ModelExaminationBody> =>
        toExaminationBody(await examinations.start(await storedModel(request, models))),
      DELETE: async (request): Promise<ModelExaminationBody> => {
        const model = await storedModel(request, models)
        const examination = await examinations.skip(model)
        if (examination === null) throw notFound(`The model '${model.id}' was never examined`)
        return toExaminationBody(examination)
      },
    },
  })
}

/** @throws ApiError 404 for a model that does not exist, 400 for one that cannot be examined. */
async function storedModel(request: FastifyRequest, models: ModelCatalog): Promise<ServedModel> {
  const { model_id: id } = request.params as { model_id: string }
  const model = await namedModel(models, id, (name) => notFound(`The model '${name.slice(0, 200)}' does not exist`))
  if (models.isStored(model)) return model
  const message = `Model '${model.id}' is one of the server's settings; lookout doctor examines it`
  throw invalidRequest(message, 'model')
}

function notFound(message: string): ApiError {
  return invalidRequest(message, 'model', MODEL_NOT_FOUND)
}
