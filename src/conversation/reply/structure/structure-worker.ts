/** The entry point of the threads that check replies against their structure. Ending the thread can abort a check. */
import { parentPort } from 'node:worker_threads'
import { parsePattern } from '../../../inference/constraints/regex/anchors.ts'
import { PatternMatcher } from '../../../inference/constraints/regex/matcher.ts'
import { SearchMatcher } from '../../../inference/constraints/regex/search-matcher.ts'
import { READY } from '../../../lib/guarded/guarded-worker.ts'
import type { Structure } from '../../request/chat-request.ts'
import { modernSchema } from './modern-schema.ts'
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
    const value = JSON.parse(text) as unknown
    return schemaProblem(value, structure.type === 'json_object' ? { type: 'object' } : structure.schema)
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
}

/** The engine supports some schemas that the validator cannot compile or run. Its constraint is then the only check. */
function schemaProblem(value: unknown, schema: unknown): string | null {
  try {
    const valid = schemaValidator(modernSchema(schema) as object | boolean, { regExp: patternEngine })
    if (valid(value)) return null
    return (valid.errors ?? []).map(({ instancePath, message }) => `${instancePath} ${message}`.trim()).join(', ')
  } catch {
    return null
  }
}

/** Searches for patterns exactly as the engine does. The validator tells patterns apart by their text. */
const patternEngine = Object.assign(
  (source: string) => Object.assign(new SearchMatcher(source), { toString: () => source }),
  { code: '' },
)
