import type { UsageRecord } from '../accounts/usage-ledger.ts'
import { InlineMedia } from '../media/inline-media.ts'
import type { Look, LookRequest } from '../watches/look.ts'
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

/**
 * Returns what answers the looks of watches: what answers decisions, with the same checks and costs. The ledger gets one
 * row for each watch and minute.
 */
export function watchLooker(options: LookerOptions): { readonly look: Look; close(): void } {
  const minutes = new MinuteLedger(options.ledger)
  const look: Look = async ({ watch, principal, model: name, questions, frame, signal }) => {
    const model = await namedModel(options.models, name)
    const closing = new AbortController()
    const call = callOf({ principal, frame, closed: closing.signal, logger: options.logger })
    try {
      const metering = { ...options, ledger: { record: (row: UsageRecord) => minutes.record(watch, row) } }
      const metered = await meter(metering, call, { endpoint: 'watches', model })
      const request = aboutPicture(new InlineMedia(frame), { model: name, questions })
      const decided = await options.conversations.decide(request, metered.caller, signal)
      metered.finish('stop')
      // Checked when the watch was registered.
      return toAnswers(decided, questions as DecisionQuestionBody[], call)
    } finally {
      closing.abort(new ClientDisconnected('The look has ended'))
    }
  }
  return { look, close: () => minutes.close() }
}

/** A look as a call, whose caller leaves when it has ended. */
function callOf(about: Pick<LookRequest, 'principal' | 'frame'> & Pick<ApiCall, 'closed' | 'logger'>): ApiCall {
  const { principal, frame, closed, logger } = about
  return {
    ...{ id: newTraceId(), principal, closed, logger },
    headers: {},
    body: Buffer.from(frame.buffer, frame.byteOffset, frame.byteLength),
    trace: null,
    status: null,
    servedBy() {},
    setHeader() {},
    openStream() {
      throw new Error('A look cannot be streamed')
    },
  }
}

/** Adds up what the looks of each watch cost in a minute. */
class MinuteLedger {
  readonly #ledger: LookerOptions['ledger']
  readonly #rows = new Map<string, UsageRecord>()
  readonly #timer: NodeJS.Timeout

  constructor(ledger: LookerOptions['ledger']) {
    this.#ledger = ledger
    this.#timer = setInterval(() => this.#write(), MINUTE_MS)
    this.#timer.unref()
  }

  /** Rows that differ in more than their numbers stay apart. */
  record(watch: string, row: UsageRecord): void {
    const { organisation, key, model, status, finish } = row
    const about = [watch, organisation, key, model, status, finish].join(' ')
    const known = this.#rows.get(about)
    this.#rows.set(about, known === undefined ? row : sumOf(known, row))
  }

  #write(): void {
    for (const row of this.#rows.values()) this.#ledger.record(row)
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
