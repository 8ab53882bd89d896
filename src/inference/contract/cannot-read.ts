import { type ApiError, invalidRequest } from '../../lib/errors/errors.ts'

/** The error of an engine without `read`. */
export function cannotRead(): ApiError {
  return invalidRequest('This model cannot answer decisions: it does not give log-probabilities', 'model')
}

/** The error of an engine without `embed`. */
export function cannotEmbed(): ApiError {
  return invalidRequest('This model makes no embeddings', 'model')
}
