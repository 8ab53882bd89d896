import { failureReason } from '../../lib/errors/fetch-failure.ts'
import type { GuardedAgent } from '../../lib/guarded-agent.ts'
import { ForbiddenAddress } from '../../lib/public-address.ts'
import { userAgent } from '../../lib/version.ts'
import { withTimeout } from '../../lib/with-timeout.ts'
import type { Delivery, DeliveryDesk } from './delivery-desk.ts'
import { signedHeaders } from './webhook.ts'

/** The outcome of an attempt to send an event. */
export type DeliveryResult = 'delivered' | 'failed' | 'given_up' | 'ended'

export interface WebhookSenderOptions {
  readonly desk: DeliveryDesk
  readonly agent: GuardedAgent
  /** Runs work, and handles its failure. */
  readonly guarded: (work: () => Promise<void>) => Promise<void>
  readonly onResult: (result: DeliveryResult) => void
  /** How long to wait for an answer. */
  readonly timeoutMs: number
  /** Delays between attempts, before jitter. */
  readonly retriesMs?: readonly number[] | undefined
}

const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS
const RETRIES_MS = [5_000, 30_000, 2 * MINUTE_MS, 10 * MINUTE_MS, HOUR_MS, 6 * HOUR_MS, 24 * HOUR_MS]
/** Spreads retries, so that a receiver that was down does not get everything at once. */
const JITTER = 0.2
/** How long it takes to notice events that other servers stored. */
const POLL_MS = 5_000
const LEAST_WAIT_MS = 20
/** How long new events may wait for a retry to end. */
const BESIDE_MS = 500
/** The most webhooks served at a time, in all and of one organisation. */
const MOST = 64
const MOST_OF_ONE = 4
/** How much of an answer is read, so that its connection can be reused. The content does not matter. */
const MOST_ANSWER_BYTES = 4_096
const MOST_ANSWER_MS = 1_000
const GONE = 410

interface Answer {
  /** Why the attempt failed; null if it did not. */
  readonly error: string | null
  /** Whether the receiver wants no more events. */
  readonly isGone?: boolean
}

/** Sends the events of watches to their webhooks, as one of any number of servers on one database. */
export class WebhookSender {
  readonly #options: WebhookSenderOptions
  readonly #stopping = new AbortController()
  /** Running deliveries, by watch. */
  readonly #busy = new Map<string, { readonly organisation: string; readonly ended: Promise<void> }>()
  #woken = Promise.withResolvers<void>()
  #ended: Promise<unknown> = Promise.resolve()

  constructor(options: WebhookSenderOptions) {
    this.#options = options
  }

  start(): void {
    this.#ended = this.#run()
  }

  /** Looks for work now. Call it when events have been stored here. */
  wake(): void {
    this.#woken.resolve()
  }

  /** Aborts running attempts. Another server, or the next one here, sends those events again. */
  async close(): Promise<void> {
    this.#stopping.abort()
    this.wake()
    await this.#ended
    await Promise.all([...this.#busy.values()].map(({ ended }) => ended))
    await this.#options.agent.close()
  }

  async #run(): Promise<void> {
    await this.#options.guarded(() => this.#options.desk.sealSecrets())
    while (!this.#stopping.signal.aborted) {
      this.#woken = Promise.withResolvers()
      let waitMs = POLL_MS
      await this.#options.guarded(async () => {
        waitMs = await this.#claimAll()
      })
      await withTimeout(waitMs, this.#woken.promise, undefined)
    }
  }

  /** @returns milliseconds until there may be more. */
  async #claimAll(): Promise<number> {
    const { desk } = this.#options
    for (;;) {
      if (this.#busy.size >= MOST || this.#stopping.signal.aborted) return POLL_MS
      const byOrganisation = Map.groupBy(this.#busy.values(), ({ organisation }) => organisation)
      const full = [...byOrganisation].flatMap(([id, of]) => (of.length < MOST_OF_ONE ? [] : [id]))
      const claimed = await desk.claim(full)
      if (claimed === null) {
        const next = (await desk.untilNext(full)) ?? POLL_MS
        return Math.min(POLL_MS, Math.max(LEAST_WAIT_MS, next))
      }
      const { id, organisation } = claimed
      const ended = this.#sendAll(id).finally(() => {
        this.#busy.delete(id)
        // For events that were stored meanwhile, and for an organisation that had no place left.
        this.wake()
      })
      this.#busy.set(id, { organisation, ended })
    }
  }

  /** Sends the events that are due to one webhook, one at a time. Retries run beside them, also one at a time. */
  async #sendAll(watch: string): Promise<void> {
    const { desk, guarded } = this.#options
    await guarded(async () => {
      let again: Promise<void> | null = null
      while (!this.#stopping.signal.aborted) {
        const failed: Delivery | null = again === null ? await desk.next(watch, true) : null
        if (failed !== null) {
          again = this.#attempt(watch, failed).then(() => {
            again = null
          })
          // It is awaited below.
          again.catch(() => {})
        }
        const due = await desk.next(watch, false)
        if (due !== null) await this.#attempt(watch, due)
        else if (again === null) break
        else await withTimeout(BESIDE_MS, again, undefined)
      }
      await again
      // If this server fails, the lease runs out by itself, so no event is sent again and again.
      await desk.leave(watch)
    })
  }

  async #attempt(watch: string, due: Delivery): Promise<void> {
    const { desk, onResult, retriesMs = RETRIES_MS } = this.#options
    const { error, isGone = false } = await this.#send(due)
    if (this.#stopping.signal.aborted && error !== null) return
    if (error === null) {
      await desk.delivered(watch, due)
      onResult('delivered')
    } else if (isGone) {
      await desk.end(watch, due, error)
      onResult('ended')
    } else {
      const wait = retriesMs[due.tries]
      const isLast = wait === undefined
      const reason = isLast ? `${error}; an event was given up after ${due.tries + 1} attempts` : error
      await desk.failed(watch, due, reason, isLast ? null : wait * (1 + JITTER * (2 * Math.random() - 1)))
      onResult(isLast ? 'given_up' : 'failed')
    }
  }

  async #send({ id, body, url: address, secret }: Delivery): Promise<Answer> {
    const { agent, timeoutMs } = this.#options
    const url = new URL(address)
    // The allowed hosts may have changed.
    if (agent.refusalOf(url) !== null) return { error: NOT_ALLOWED }
    if (secret === null) return { error: UNREADABLE }
    const deadline = AbortSignal.timeout(timeoutMs)
    const signal = AbortSignal.any([this.#stopping.signal, deadline])
    const headers = {
      ...signedHeaders({ id, body }, secret, Math.floor(Date.now() / 1000)),
      ...{ 'content-type': 'application/json', 'user-agent': await userAgent() },
    }
    try {
      const { statusCode, body: answer } = await agent.request(url, { method: 'POST', headers, body, signal })
      answer.on('error', () => {})
      await answer.dump({ limit: MOST_ANSWER_BYTES, signal: AbortSignal.timeout(MOST_ANSWER_MS) }).catch(() => {})
      if (statusCode >= 200 && statusCode < 300) return { error: null }
      const isRedirect = statusCode >= 300 && statusCode < 400
      const error = `HTTP ${statusCode}${isRedirect ? ': redirects are not followed' : ''}`
      return { error, isGone: statusCode === GONE }
    } catch (error) {
      if (error instanceof ForbiddenAddress) return { error: NOT_ALLOWED }
      return { error: deadline.aborted ? `no answer within ${timeoutMs / 1000} s` : failureReason(error) }
    }
  }
}

const NOT_ALLOWED = 'its address is not public'
const UNREADABLE = 'its secret cannot be read, as LOOKOUT_SECRET has changed: set another secret'
