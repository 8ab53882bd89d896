import type { ErrorCode } from '../../lib/errors/error-codes.ts'
import { type ApiError, invalidRequest, say } from '../../lib/errors/errors.ts'
import { type Path, within } from '../../lib/errors/param.ts'
import { isTextDeeper, MOST_JSON_LEVELS } from '../../lib/json/json-depth.ts'
import type { PlacedMessage } from './message.ts'
import type { Tool } from './tool.ts'

/**
 * Checks the JSON texts that templates and constraints process recursively.
 * @throws ApiError 400 that names the text nested too deeply.
 */
export function checkNesting(tools: readonly Tool[], messages: readonly PlacedMessage[]): void {
  for (const [index, { parameters }] of tools.entries()) {
    if (parameters !== null && isTextDeeper(parameters)) throw nestedTooDeep(['tools', index, 'function', 'parameters'])
  }
  for (const { message, param } of messages) {
    if (message.role !== 'assistant') continue
    for (const [index, call] of (message.tool_calls ?? []).entries()) {
      const own = within(param, 'tool_calls', index, 'function', 'arguments')
      if (isTextDeeper(call.function.arguments)) throw nestedTooDeep(own)
    }
  }
}

export function nestedTooDeep(param: Path, code: ErrorCode | null = null): ApiError {
  return invalidRequest(say`Invalid '${param}': it is nested deeper than ${MOST_JSON_LEVELS} levels`, param, { code })
}
