import type { ErrorCode } from '../../lib/errors/error-codes.ts'
import { type Param, type Path, within } from '../../lib/errors/param.ts'
import type { Constraint, TagContent } from '../contract/constraint.ts'

/** The error for an unsupported constraint. */
export interface Refusal {
  readonly message: string
  readonly param: Param | null
  readonly code: ErrorCode | null
}

const NAMES: Readonly<Record<Constraint['type'], { what: string; code: ErrorCode | null }>> = {
  json_schema: { what: 'JSON schema', code: 'invalid_response_format' },
  regex: { what: 'regular expression', code: 'invalid_regex' },
  sequence: { what: 'constraint', code: null },
  tag_list: { what: 'constraint', code: null },
  triggered_tags: { what: 'constraint', code: null },
}

/** @param path of the unsupported part within the constraint. */
export function refusal(constraint: Constraint, problem: string, path: Path = []): Refusal {
  const isEither = constraint.type === 'triggered_tags' && constraint.otherwise !== undefined
  const { what, code } = NAMES[isEither ? innermost(constraint.otherwise).type : constraint.type]
  return {
    message: `The ${what} is not supported: ${problem}`,
    param: constraint.param === undefined ? path : within(constraint.param, ...path),
    code,
  }
}

/** The value in a sequence, inside the surrounding texts. */
function innermost(content: TagContent): TagContent {
  const inner = content.type === 'sequence' ? content.parts.find((part) => typeof part !== 'string') : undefined
  return inner === undefined ? content : innermost(inner)
}
