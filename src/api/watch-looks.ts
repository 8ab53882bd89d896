import type { UsageRecord } from '../accounts/usage-ledger.ts'
import { LateLook, type Look, type LookRequest } from '../watches/look.ts'
import type { ApiOptions } from './api.ts'
import type { ApiCall } from './http/api-call.ts'
import { ClientDisconnected } from './http/connection/abort-signal.ts'
import { namedModel } from './http/named-model.ts'
import { meter } from './http/record/metering.ts'
import { newTraceId } from './http/record/request-log.ts'
import type { Serving } from './surfaces/admission.ts'
import { aboutPicture } from './surfaces/openai/decision-request.ts'
import { toAnswers } from './surfaces/openai/decisions.ts'
import type { DecisionQuestionBody } from './surfaces/openai/wire/decision-request.ts'

type LookerOptions = Pick<Serving, 'models' | 'conversations' | 'ledger' | 'budgets' | 'examinations'> &
  Pick<ApiOptions, 'logger'>

const MINUTE_MS = 60_000
/** Minimum time for a look to begin after its model has loaded, in ms. */
const LOADED_MS = 1_000

/**
 * Returns a function that makes the looks of watches like decisions, with the same checks and costs. The ledger gets
 * one row per watch and minute, with the average duration of a look.
 */
export function watchLooker(options: LookerOptions): { readonly look: Look; close(): void } {
  const minutes = new MinuteLedger(options.ledger)
  const look: Look = async ({ watch, principal, model: name, questions, frame, region, beginBy, signal }) => {
    const model = await namedModel(options.models, name)
    const isLoaded = () => model.engine.state !== 'unloaded' && model.engine.state !== 'starting'
    using late = new Lateness(beginBy, isLoaded)
    const closing = new AbortController()
    const call = callOf({ principal, closed: closing.signal, logger: options.logger })
    const charged = (charge: (row: UsageRecord) => void) => (row: UsageRecord) => {
      if (!late.signal.aborted) charge(row)
    }
    const { budgets, examinations } = options
    const metering = {
      ledger: { record: charged((row) => minutes.record(watch, row)) },
      budgets: { state: budgets.state.bind(budgets), add: charged((row) => budgets.add(row)) },
      examinations,
    }
    // The frame is not asked about again, and a look that has begun is never late.
    const urgent = { priority: 'live', onBegun: () => late.clear() } as const
    const terms = { isTransient: true, ...(beginBy !== null && urgent) }
    try {
      const metered = await meter(metering, call, { endpoint: 'watches', model, terms })
      const request = aboutPicture({ url: frame, region }, { model: name, questions })
      const either = AbortSignal.any([signal, late.signal])
      const decided = await options.conversations.decide(request, metered.caller, either)
      metered.finish('stop')
      // Checked when the watch was registered.
      return toAnswers(decided, questions as DecisionQuestionBody[], call)
    } catch (error) {
      late.signal.throwIfAborted()
      throw error
    } finally {
      closing.abort(new ClientDisconnected('The look has ended'))
    }
  }
  return { look, close: () => minutes.close() }
}

/**
 * Aborts a look at a given time, unless it has begun. While its model is not loaded, the look keeps its place in the
 * queue for memory: if each one gave up, none would ever load the model.
 */
class Lateness implements Disposable {
  readonly #controller = new AbortController()
  #timer: NodeJS.Timeout | undefined

  /** @param at by `performance.now()`; null for never. */
  constructor(at: number | null, isLoaded: () => boolean) {
    if (at === null) return
    let wasLoaded = isLoaded()
    const check = () => {
      // The model may have been loaded just now.
      if (wasLoaded && isLoaded()) this.#controller.abort(new LateLook())
      else this.#timer = setTimeout(check, LOADED_MS)
      wasLoaded = isLoaded()
    }
    this.#timer = setTimeout(check, Math.max(0, at - performance.now()))
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  clear(): void {
    clearTimeout(this.#timer)
  }

  [Symbol.dispose](): void {
    this.clear()
  }
}

/** A look as a call, which is closed when the look has ended. */
function callOf(about: Pick<LookRequest, 'principal'> & Pick<ApiCall, 'closed' | 'logger'>): ApiCall {
  const { principal, closed, logger } = about
  return {
    ...{ id: newTraceId(), principal, closed, logger },
    headers: {},
    body: Buffer.alloc(0),
    trace: null,
    status: null,
    servedBy() {},
    setHeader() {},
    openStream() {
      throw new Error('A look cannot be streamed')
    },
  }
}

/** Sums the costs of each watch's looks per minute. */
class MinuteLedger {
  readonly #ledger: LookerOptions['ledger']
  readonly #rows = new Map<string, { readonly row: UsageRecord; readonly looks: number }>()
  readonly #timer: NodeJS.Timeout

  constructor(ledger: LookerOptions['ledger']) {
    this.#ledger = ledger
    this.#timer = setInterval(() => this.#write(), MINUTE_MS)
    this.#timer.unref()
  }

  /** Rows that differ in anything but their numbers stay separate. */
  record(watch: string, row: UsageRecord): void {
    const { organisation, key, model, status, finish } = row
    const about = [watch, organisation, key, model, status, finish].join(' ')
    const known = this.#rows.get(about)
    const sum = known === undefined ? { row, looks: 1 } : { row: sumOf(known.row, row), looks: known.looks + 1 }
    this.#rows.set(about, sum)
  }

  #write(): void {
    for (const { row, looks } of this.#rows.values()) {
      this.#ledger.record({ ...row, latencyMs: Math.round(row.latencyMs / looks) })
    }
    this.#rows.clear()
  }

  close(): void {
    clearInterval(this.#timer)
    this.#write()
  }
}

function sumOf(one: UsageRecord, other: UsageRecord): UsageRecord {
  return {
    ...one,
    promptTokens: one.promptTokens + other.promptTokens,
    completionTokens: one.completionTokens + other.completionTokens,
    cachedTokens: one.cachedTokens + other.cachedTokens,
    audioTokens: one.audioTokens + other.audioTokens,
    latencyMs: one.latencyMs + other.latencyMs,
    credits: one.credits + other.credits,
  }
}
