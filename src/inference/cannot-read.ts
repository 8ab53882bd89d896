import { type ApiError, invalidRequest } from '../lib/errors.ts'
import type { ReadWork } from './engine.ts'

/** For an engine that has no `read`. */
export function cannotRead({ questions }: ReadWork): ApiError {
  return invalidRequest('This model does not say how likely replies are.', questions[0]?.param ?? 'messages')
}
