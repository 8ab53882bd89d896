import { type ApiError, internalError, invalidRequest, modelOverloaded, tryAgainIn } from '../../lib/errors/errors.ts'
import type { EngineFailure } from './protocol.ts'

/** An error that is reported to the caller. Any other error in the engine process is a bug in the server. */
export class FailureError extends Error {
  readonly failure: EngineFailure

  constructor(failure: EngineFailure) {
    super(failure.message)
    this.failure = failure
  }
}

/** @param seconds estimated time until there is room. */
export function tooMany(message: string, seconds: number): FailureError {
  return new FailureError({ kind: 'overloaded', message: `${message} ${tryAgainIn(seconds)}`, retryAfter: seconds })
}

export function toFailure(error: unknown): EngineFailure {
  if (error instanceof FailureError) return error.failure
  return { kind: 'internal', message: error instanceof Error ? (error.stack ?? error.message) : String(error) }
}

export function toApiError(failure: EngineFailure): ApiError {
  switch (failure.kind) {
    case 'invalid':
      return invalidRequest(failure.message, failure.param, { code: failure.code ?? null })
    case 'overloaded':
      return modelOverloaded(failure.message, failure.retryAfter)
    case 'internal':
      return internalError(new Error(failure.message))
  }
}
