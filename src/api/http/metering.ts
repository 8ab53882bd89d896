import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Budgets, Principal, UsageLedger } from '../../accounts/index.ts'
import type { Caller } from '../../conversation/index.ts'
import type { CountOptions, Engine, Generation, PromptPart, Work } from '../../inference/engine.ts'
import type { ServedModel } from '../../inference/registry.ts'
import { ApiError } from '../../lib/errors.ts'
import { CLIENT_GONE } from './abort-signal.ts'
import { principalOf } from './auth.ts'

/** Keeps account of what requests use of a model. */
export interface Metering {
  readonly ledger: Pick<UsageLedger, 'record'>
  readonly budgets: Pick<Budgets, 'state' | 'add'>
}

/** A request that was let in to a model, until its answer is out. */
export interface MeteredRequest {
  /** Whatever it has the model do is counted. */
  readonly caller: Caller
  /** To be called before the last of a whole answer is sent: what a client has seen is in the ledger. */
  finish(reason: string): void
}

/**
 * Lets a request in to a model, unless its organisation has spent its budget. However it ends, the ledger gets one row,
 * with the tokens that the engine has computed until then.
 * @throws ApiError 429
 */
export async function meter(
  { ledger, budgets }: Metering,
  request: FastifyRequest,
  reply: FastifyReply,
  { endpoint, model }: { readonly endpoint: string; readonly model: ServedModel },
): Promise<MeteredRequest> {
  request.servedModel = model.id
  const principal = principalOf(request)
  await checkBudget(budgets, principal)
  const at = new Date()
  const started = performance.now()
  const tally = new TokenTally()
  let recorded = false
  const record = (status: number, finish: string) => {
    if (recorded) return
    recorded = true
    const row = {
      traceId: request.id,
      at: at.toISOString(),
      organisation: principal.organisation,
      key: principal.key,
      model: model.id,
      endpoint,
      status,
      finish,
      ...tally.tokens,
      latencyMs: Math.round(performance.now() - started),
      credits: tally.credits(model),
    }
    ledger.record(row)
    budgets.add(row)
  }
  const { raw } = reply
  // An answer that was not whole: an error, or a client that left.
  raw.once('close', () => {
    if (raw.writableFinished) record(raw.statusCode, 'error')
    else record(CLIENT_GONE, 'aborted')
  })
  return {
    caller: { model: tally.watch(model), organisation: principal.organisation },
    finish: (reason) => record(200, reason),
  }
}

async function checkBudget(budgets: Metering['budgets'], principal: Principal): Promise<void> {
  const state = await budgets.state(principal)
  if (!state?.exceeded) return
  const retryAfter = Math.ceil(state.resetMs / 1000)
  throw new ApiError(
    `Monthly budget reached: ${state.monthlyCredits} credits. It begins anew in ${retryAfter} seconds.`,
    { status: 429, type: 'rate_limit_error', code: 'rate_limit_exceeded', retryAfter },
  )
}

/** Counts the tokens that engines compute for one request. */
class TokenTally {
  #prompt = 0
  #cached = 0
  #audio = 0
  readonly #generations: Generation[] = []

  get tokens() {
    return {
      promptTokens: this.#prompt,
      // Asked of the generations, which know of tokens whose events are never read: those of a client that left.
      completionTokens: this.#generations.reduce((sum, generation) => sum + generation.computedTokens(), 0),
      cachedTokens: this.#cached,
      audioTokens: this.#audio,
    }
  }

  credits({ served: { credits } }: ServedModel): number {
    const { promptTokens, cachedTokens, completionTokens } = this.tokens
    const millionths =
      (promptTokens - cachedTokens) * credits.input +
      cachedTokens * credits.cacheRead +
      completionTokens * credits.output
    return millionths / 1e6
  }

  /** The same model, watched. */
  watch(model: ServedModel): ServedModel {
    return { ...model, engine: new WatchedEngine(model.engine, this) }
  }

  admitted(generation: Generation): void {
    this.#generations.push(generation)
    for (const prompt of generation.prompts) {
      this.#prompt += prompt.promptTokens
      this.#cached += Math.min(prompt.cachedTokens, prompt.promptTokens)
      this.#audio += prompt.audioTokens
    }
  }
}

class WatchedEngine implements Engine {
  readonly #engine: Engine
  readonly #tally: TokenTally

  constructor(engine: Engine, tally: TokenTally) {
    this.#engine = engine
    this.#tally = tally
  }

  get info() {
    return this.#engine.info
  }

  get state() {
    return this.#engine.state
  }

  async generate(work: Work, signal: AbortSignal): Promise<Generation> {
    const generation = await this.#engine.generate(work, signal)
    this.#tally.admitted(generation)
    return generation
  }

  countTokens(parts: readonly PromptPart[], options: CountOptions): Promise<number> {
    return this.#engine.countTokens(parts, options)
  }

  /** The registry's own. */
  async close(): Promise<void> {}
}
