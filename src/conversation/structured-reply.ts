import { ApiError, invalidRequest } from '../errors.ts'
import { GuardedWorker } from '../guarded-worker.ts'
import type { Constraint } from '../inference/engine.ts'
import type { ModelCard } from '../models/card.ts'
import type { Structure } from './chat-request.ts'
import type { ReplyEvent } from './reply.ts'
import type { Claim, Verdict } from './structure-worker.ts'

const WORKER_FILE = new URL('./structure-worker.ts', import.meta.url)
/** Schemas come from clients: what one takes to check is for them to say. */
const CHECK_LIMIT_MS = 5_000

/** Deeper schemas than any engine takes would exhaust the stack on their way there. */
const DEEPEST_SCHEMA = 200

/**
 * What the engine must keep to, for the reply to have the structure.
 * @throws ApiError 400 for a schema that cannot be passed on.
 */
export function constraintOf(structure: Structure): Constraint {
  if (structure.type === 'regex') return { type: 'regex', pattern: structure.pattern, param: 'regex' }
  const param = 'response_format.json_schema.schema'
  if (deeper(structure.schema, DEEPEST_SCHEMA)) {
    throw invalidRequest('The JSON schema is nested too deep', param, { code: 'invalid_response_format' })
  }
  return { type: 'json_schema', schema: structure.schema, param }
}

/** What a model reads of the structure that binds it: its card says so. */
export function demandOf(structure: Structure, { schemaPrompt }: Pick<ModelCard, 'schemaPrompt'>): string | null {
  if (structure.type === 'regex' || schemaPrompt === undefined) return null
  // A function, for the schema may hold what a replacement text would mean something by.
  return schemaPrompt.replace('{schema}', () => JSON.stringify(structure.schema))
}

function deeper(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return false
  return levels === 0 || Object.values(value).some((inner) => deeper(inner, levels - 1))
}

/**
 * Checks replies against their structure once more, by other means than the engine that was bound to it: a client must
 * not take for granted what does not hold.
 */
export class StructureChecker {
  readonly #worker = new GuardedWorker<Claim, Verdict>(WORKER_FILE, null, CHECK_LIMIT_MS)

  /**
   * The same reply; one that came to its own end is checked.
   * @throws ApiError 500 `output_validation_failed` after the texts, in place of the finish.
   */
  async *checked(reply: AsyncIterable<ReplyEvent>, structure: Structure): AsyncGenerator<ReplyEvent, void, void> {
    let text = ''
    for await (const event of reply) {
      if (event.type === 'text') text += event.text
      else if (event.type === 'finish' && event.reason !== 'length') await this.#check(text, structure)
      yield event
    }
  }

  async close(): Promise<void> {
    await this.#worker.stop()
  }

  async #check(text: string, structure: Structure): Promise<void> {
    const verdict = await this.#worker.ask({ text, structure })
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
