import './system-one.ts'
import { json, type Operation, ok, operations, PRIORITY, ref } from '../../../http/wire/describe.ts'

const CONVENTION = { errors: 'SystemOneError', headers: ['x-typesafe-request-id'] } as const

/** The paths of TypeSafe's convention, in which mistakes in a body have status 422. */
export const TYPESAFE_PATHS = operations({
  'POST /v1/systemone': systemOne('createSystemOne'),
  'POST /typesafe/v1/systemone': systemOne('createSystemOneBelowPrefix'),
  'GET /typesafe/v1/models': {
    id: 'listSystemOneModels',
    tag: 'systemOne',
    summary: 'The models that are served, as TypeSafe’s clients list them',
    replies: ok('The models.', json('SystemOneModelList')),
    errors: [401, 429, 503],
    convention: CONVENTION,
  },
})

function systemOne(id: string): Operation {
  return {
    id,
    tag: 'systemOne',
    summary: 'Answer named questions about one state, with probabilities',
    parameters: [PRIORITY],
    body: { ...json('SystemOneRequest'), 'multipart/form-data': { schema: ref('SystemOneForm') } },
    replies: ok('The answers, by the names of their questions.', json('SystemOneResponse')),
    errors: [401, 403, 408, 413, 415, 422, 429, 500, 503, 504],
    convention: CONVENTION,
  }
}
