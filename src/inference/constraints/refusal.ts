import type { Constraint } from '../engine.ts'

/** The error for a constraint that is not supported. */
export interface Refusal {
  readonly message: string
  readonly param: string | null
  readonly code: string | null
}

const NAMES: Readonly<Record<Constraint['type'], { what: string; code: string | null }>> = {
  json_schema: { what: 'JSON schema', code: 'invalid_response_format' },
  regex: { what: 'regular expression', code: 'invalid_regex' },
  triggered_tags: { what: 'constraint', code: null },
}

/** @param suffix of the parameter: a position within the constraint. */
export function refusal(constraint: Constraint, problem: string, suffix = ''): Refusal {
  const isEither = constraint.type === 'triggered_tags' && constraint.otherwise !== undefined
  const { what, code } = NAMES[isEither ? constraint.otherwise.type : constraint.type]
  return {
    message: `The ${what} is not supported: ${problem}`,
    param: (constraint.param ?? '') + suffix || null,
    code,
  }
}
