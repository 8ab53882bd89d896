import type { Constraint } from '../../../inference/contract/constraint.ts'
import { ApiError, invalidRequest, say } from '../../../lib/errors/errors.ts'
import { nameOf, type Path } from '../../../lib/errors/param.ts'
import { GuardedPool } from '../../../lib/guarded/guarded-pool.ts'
import { isValueDeeper } from '../../../lib/json/json-depth.ts'
import type { ModelCard } from '../../../models/card.ts'
import type { Structure } from '../../request/chat-request.ts'
import { nestedTooDeep } from '../../request/nesting.ts'
import type { ChoiceEvent, ReplyEvent, ReplyFinish } from '../reply.ts'
import type { Claim, Verdict } from './structure-worker.ts'

const WORKER_FILE = new URL('./structure-worker.ts', import.meta.url)
/** Schemas come from clients, so a check may take arbitrarily long. */
const CHECK_LIMIT_MS = 5_000
/** More than one, so that slow checks of one organisation leave threads to others. */
const THREADS = 3

export const SCHEMA: Path = ['response_format', 'json_schema', 'schema']
const ANY_OBJECT = { type: 'object' }

/**
 * The engine constraint that gives a reply the structure.
 * @throws ApiError 400 for a pattern or schema that the engine does not support.
 */
export function constraintOf(structure: Structure): Constraint {
  if (structure.type === 'regex') {
    const { pattern } = structure
    // JSON allows lone surrogates. The engine's texts are UTF-8, which does not.
    if (!pattern.isWellFormed()) {
      throw invalidRequest('The regular expression contains a lone surrogate', 'regex', { code: 'invalid_regex' })
    }
    return { type: 'regex', pattern, param: 'regex' }
  }
  if (structure.type === 'json_object') {
    return { type: 'json_schema', schema: ANY_OBJECT, param: 'response_format' }
  }
  if (isValueDeeper(structure.schema)) throw nestedTooDeep(SCHEMA, 'invalid_response_format')
  return { type: 'json_schema', schema: structure.schema, param: nameOf(SCHEMA)! }
}

/** The prompt text that describes the structure, for models whose card has a `schemaPrompt`; null for others. */
export function demandOf(structure: Structure, { schemaPrompt }: Pick<ModelCard, 'schemaPrompt'>): string | null {
  if (structure.type !== 'json_schema' || schemaPrompt === undefined) return null
  // A function, because the schema may contain replacement patterns such as `$&`.
  return schemaPrompt.replace('{schema}', () => JSON.stringify(structure.schema))
}

/**
 * Validates replies against their structure, independently of the engine's constraint, so that clients can rely on it
 * even if an engine does not enforce it.
 */
export class StructureChecker {
  readonly #threads = new GuardedPool<Claim, Verdict>(WORKER_FILE, { threads: THREADS, limitMs: CHECK_LIMIT_MS })

  /**
   * Passes one or several replies through and checks each, unless it calls tools, was truncated or met a stop sequence.
   * A mismatch fails all of them. Organisations take turns.
   * @param structure null to check nothing.
   * @throws ApiError 500 `output_validation_failed` after the texts, in place of the finish event.
   */
  checked<Event extends ReplyEvent | ChoiceEvent>(
    events: AsyncIterable<Event>,
    structure: Structure | null,
    organisation: string,
  ): AsyncIterable<Event> {
    return structure === null ? events : this.#checked(events, structure, organisation)
  }

  async *#checked<Event extends ReplyEvent | ChoiceEvent>(
    events: AsyncIterable<Event>,
    structure: Structure,
    organisation: string,
  ): AsyncGenerator<Event, void, void> {
    const texts: string[] = []
    for await (const one of events) {
      const { choice, event }: ChoiceEvent = 'choice' in one ? one : { choice: 0, event: one }
      if (event.type === 'text') texts[choice] = (texts[choice] ?? '') + event.text
      else if (event.type === 'finish' && isWhole(event)) {
        await this.#check(texts[choice] ?? '', structure, organisation)
      }
      yield one
    }
  }

  async close(): Promise<void> {
    await this.#threads.stop()
  }

  async #check(text: string, structure: Structure, organisation: string): Promise<void> {
    const verdict = await this.#threads.ask(organisation, { text, structure })
    // The engine's constraint holds even if validating the reply takes too long.
    if (verdict === null || verdict.problem === null) return
    const what = [structure.type === 'regex' ? 'regex' : 'response_format']
    throw new ApiError(say`The reply does not match the ${what}: ${verdict.problem}`, {
      status: 500,
      type: 'server_error',
      code: 'output_validation_failed',
      param: what,
    })
  }
}

function isWhole({ reason, stoppedBy }: ReplyFinish): boolean {
  return reason !== 'length' && reason !== 'tool_calls' && stoppedBy === undefined
}
