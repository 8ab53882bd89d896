/** The entry point of the threads that check replies against their structure. A thread can be ended; a check cannot. */
import { parentPort } from 'node:worker_threads'
import type { ValidateFunction } from 'ajv'
import { parsePattern } from '../../inference/constraints/regex/anchors.ts'
import { PatternMatcher } from '../../inference/constraints/regex/matcher.ts'
import { SearchMatcher } from '../../inference/constraints/regex/search-matcher.ts'
import { READY } from '../../lib/guarded-worker.ts'
import type { Structure } from '../request/chat-request.ts'
import { inLatestDraft } from './schema-dialect.ts'
import { schemaValidator } from './schema-validator.ts'

export interface Claim {
  readonly text: string
  readonly structure: Structure
}

export interface Verdict {
  /** What is wrong with the text; null when it is valid. */
  readonly problem: string | null
}

parentPort!.on('message', (claim: Claim) => {
  parentPort!.postMessage({ problem: problemOf(claim) } satisfies Verdict)
})
parentPort!.postMessage(READY)

function problemOf({ text, structure }: Claim): string | null {
  try {
    if (structure.type === 'regex') {
      return new PatternMatcher(parsePattern(structure.pattern)).test(text) ? null : 'it does not match'
    }
    const schema = structure.type === 'json_object' ? { type: 'object' } : structure.schema
    return schemaProblem(JSON.parse(text), schema)
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
}

function schemaProblem(value: unknown, schema: unknown): string | null {
  const valid = validatorOf(schema)
  if (valid === null || valid(value)) return null
  return (valid.errors ?? []).map(({ instancePath, message }) => `${instancePath} ${message}`.trim()).join(', ')
}

/** Null for a schema that Ajv does not take, for which the engine's constraint alone holds. */
function validatorOf(schema: unknown): ValidateFunction | null {
  try {
    return schemaValidator(inLatestDraft(schema), { regExp: patternEngine })
  } catch {
    return null
  }
}

/** Searches for patterns exactly as the engine does. Ajv takes patterns for the same whose texts are the same. */
const patternEngine = Object.assign(
  (source: string) => Object.assign(new SearchMatcher(source), { toString: () => source }),
  { code: '' },
)
