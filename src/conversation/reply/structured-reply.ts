import type { Constraint } from '../../inference/engine.ts'
import { ApiError, invalidRequest } from '../../lib/errors.ts'
import { GuardedPool } from '../../lib/guarded-pool.ts'
import { isValueDeeper } from '../../lib/json-depth.ts'
import type { ModelCard } from '../../models/card.ts'
import type { Structure } from '../request/chat-request.ts'
import { nestedTooDeep } from '../request/nesting.ts'
import type { ReplyEvent } from './reply.ts'
import type { Claim, Verdict } from './structure-worker.ts'

const WORKER_FILE = new URL('./structure-worker.ts', import.meta.url)
/** Schemas come from clients: what one takes to check is for them to say. */
const CHECK_LIMIT_MS = 5_000
/** So that the slow checks of one organisation leave a thread to the others. */
const THREADS = 3

const ANY_OBJECT = { type: 'object' }

/**
 * What the engine must keep to, for the reply to have the structure.
 * @throws ApiError 400 for a schema that cannot be passed on.
 */
export function constraintOf(structure: Structure): Constraint {
  if (structure.type === 'regex') {
    const { pattern } = structure
    // JSON can hold half of a UTF-16 pair. The engine's texts are UTF-8, which cannot.
    if (!pattern.isWellFormed()) {
      throw invalidRequest('The regular expression holds half of a surrogate pair', 'regex', { code: 'invalid_regex' })
    }
    return { type: 'regex', pattern, param: 'regex' }
  }
  if (structure.type === 'json_object') {
    return { type: 'json_schema', schema: ANY_OBJECT, param: 'response_format' }
  }
  const param = 'response_format.json_schema.schema'
  if (isValueDeeper(structure.schema)) throw nestedTooDeep(param, 'invalid_response_format')
  return { type: 'json_schema', schema: structure.schema, param }
}

/** What a model reads of the structure that binds it: its card says so. */
export function demandOf(structure: Structure, { schemaPrompt }: Pick<ModelCard, 'schemaPrompt'>): string | null {
  if (structure.type !== 'json_schema' || schemaPrompt === undefined) return null
  // A function, for the schema may hold what a replacement text would mean something by.
  return schemaPrompt.replace('{schema}', () => JSON.stringify(structure.schema))
}

/**
 * Checks replies against their structure once more, by other means than the engine that was bound to it: a client must
 * not take for granted what does not hold.
 */
export class StructureChecker {
  readonly #threads = new GuardedPool<Claim, Verdict>(WORKER_FILE, { threads: THREADS, limitMs: CHECK_LIMIT_MS })

  /**
   * The same reply; one that came to its own end is checked. Organisations take turns.
   * @throws ApiError 500 `output_validation_failed` after the texts, in place of the finish.
   */
  async *checked(
    reply: AsyncIterable<ReplyEvent>,
    structure: Structure,
    organisation: string,
  ): AsyncGenerator<ReplyEvent, void, void> {
    let text = ''
    for await (const event of reply) {
      if (event.type === 'text') text += event.text
      else if (event.type === 'finish' && event.reason !== 'length') await this.#check(text, structure, organisation)
      yield event
    }
  }

  async close(): Promise<void> {
    await this.#threads.stop()
  }

  async #check(text: string, structure: Structure, organisation: string): Promise<void> {
    const verdict = await this.#threads.ask(organisation, { text, structure })
    if (verdict?.problem === null) return
    const reason = verdict?.problem ?? `it could not be checked within ${CHECK_LIMIT_MS / 1000} s`
    const what = structure.type === 'regex' ? 'regex' : 'response_format'
    throw new ApiError(`The reply does not have the structure that ${what} asks for: ${reason}`, {
      status: 500,
      type: 'server_error',
      code: 'output_validation_failed',
      param: what,
    })
  }
}
