import type { Budgets } from '../../../accounts/budgets.ts'
import type { Principal } from '../../../accounts/principal.ts'
import type { UsageLedger } from '../../../accounts/usage-ledger.ts'
import type { Caller } from '../../../conversation/call/call.ts'
import type { ServedModel } from '../../../inference/catalog/registry.ts'
import { MeteredEngine, type TokenCounts, type WorkTerms } from '../../../inference/pool/metered-engine.ts'
import { rateLimited } from '../../../lib/errors/errors.ts'
import type { ApiCall } from '../api-call.ts'
import { CLIENT_CLOSED_REQUEST } from '../connection/abort-signal.ts'
import type { Examinations } from '../examinations.ts'
import { FINGERPRINT, notesOf, warnIn } from './response-notes.ts'

/** With the value `background`, a call yields to all others, like the lines of batches. */
export const PRIORITY_HEADER = 'x-lookout-priority'

/** The services that record the usage of requests. */
export interface Metering {
  readonly ledger: Pick<UsageLedger, 'record'>
  readonly budgets: Pick<Budgets, 'state' | 'add'>
  readonly examinations: Pick<Examinations, 'warningOf'>
}

interface MeteredUse {
  readonly endpoint: string
  readonly model: ServedModel
  /** Terms of all its work; by default, those of the call. */
  readonly terms?: WorkTerms
}

/** A request that is admitted to a model, until its response has been sent. */
export interface MeteredRequest {
  /** Its engine counts the tokens. */
  readonly caller: Caller
  /** The tokens that its engine has counted so far. */
  readonly tokens: TokenCounts
  /** Identifies everything that the answer's numbers depend on; null if unknown, or not yet known. */
  readonly fingerprint: string | null
  /**
   * Call it before sending the last byte of a complete response, so that the ledger has everything that a client saw.
   * @param pages number of document pages in the response.
   */
  finish(reason: string, pages?: number): void
}

/**
 * Admits a call to a model, unless its organisation has spent its budget. However the call ends, the ledger gets one row
 * with the tokens computed up to then.
 * @throws ApiError 429
 */
export async function meter(
  { ledger, budgets, examinations }: Metering,
  call: ApiCall,
  { endpoint, model, terms = termsOf(call) }: MeteredUse,
): Promise<MeteredRequest> {
  call.servedBy(model.id)
  const { principal, trace, closed } = call
  trace?.admitted(endpoint, model.id)
  // A remote server reports it with its answer, after the headers of a stream are sent.
  const identify = () => {
    if (engine.fingerprint !== null) call.setHeader(FINGERPRINT, engine.fingerprint)
  }
  const engine = new MeteredEngine(model.engine, {
    tracer: trace?.works,
    terms: { ...terms, adapter: model.served.adapter },
    onAdmitted: identify,
  })
  closed.addEventListener('abort', () => engine.close())
  if (closed.aborted) await engine.close()
  await checkBudget(budgets, principal)
  const warning = await examinations.warningOf(model)
  if (warning !== null) warnIn(call, warning)
  const at = new Date()
  const started = performance.now()
  let recorded = false
  const record = (status: number, finish: string, pages = 0) => {
    if (recorded) return
    recorded = true
    const { tokens } = engine
    const row = {
      traceId: call.id,
      at: at.toISOString(),
      organisation: principal.organisation,
      key: principal.key,
      model: model.id,
      endpoint,
      status,
      finish,
      ...tokens,
      pages,
      latencyMs: Math.round(performance.now() - started),
      credits: creditsFor(tokens, model),
    }
    trace?.used(tokens, finish)
    ledger.record(row)
    budgets.add(row)
  }
  // Without an earlier `finish`, the response was an error or the client disconnected.
  closed.addEventListener('abort', () => {
    if (call.status === null) record(CLIENT_CLOSED_REQUEST, 'aborted')
    else record(call.status, 'error')
  })
  return {
    caller: {
      model: { ...model, engine },
      organisation: principal.organisation,
      ...notesOf(call),
      ...terms,
    },
    get tokens() {
      return engine.tokens
    },
    get fingerprint() {
      return engine.fingerprint
    },
    finish: (reason, pages) => {
      identify()
      record(200, reason, pages)
      // A client that is slow to read its response keeps no model in memory.
      engine.close()
    },
  }
}

function termsOf({ headers }: ApiCall): WorkTerms {
  return headers[PRIORITY_HEADER] === 'background' ? { priority: 'background' } : {}
}

async function checkBudget(budgets: Metering['budgets'], principal: Principal): Promise<void> {
  const state = await budgets.state(principal)
  if (!state?.exceeded) return
  const retryAfter = Math.ceil(state.resetMs / 1000)
  const message = `Monthly budget reached: ${state.monthlyCredits} credits. Try again in ${retryAfter} seconds.`
  throw rateLimited(message, retryAfter)
}

/** Returns the cost of the tokens in credits. */
function creditsFor({ promptTokens, cachedTokens, completionTokens }: TokenCounts, { served }: ServedModel): number {
  const { input, cacheRead, output } = served.credits
  const millionths = (promptTokens - cachedTokens) * input + cachedTokens * cacheRead + completionTokens * output
  return millionths / 1e6
}
