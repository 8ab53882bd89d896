import { type ApiError, invalidRequest } from '../../lib/errors/errors.ts'

/** For an engine that has no `read`. */
export function cannotRead(): ApiError {
  return invalidRequest('This model cannot answer decisions: it does not give log-probabilities', 'model')
}

/** For an engine that has no `embed`. */
export function cannotEmbed(): ApiError {
  return invalidRequest('This model makes no embeddings', 'model')
}
