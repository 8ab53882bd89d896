import { setTimeout as sleep } from 'node:timers/promises'
import { ADVICE_OF_TRUST, isUntrusted } from '../../lib/errors/fetch-failure.ts'
import { secondsOf } from '../../lib/errors/retry-after.ts'
import { HubError } from '../hub-error.ts'
import type { Tuning } from '../tuning.ts'
import { ConnectionError, type HttpAnswer, type HttpClient } from './http-client.ts'

/** A server that answers 429 or 5xx: it may do better later. */
export class BusyError extends ConnectionError {
  /** Seconds that the server asks to wait; null when it does not say. */
  readonly seconds: number | null
  /** What to do about a rate limit; null if that is not the reason. */
  readonly limitAdvice: string | null

  /** @param asked the requested address, before redirects. */
  constructor(answer: HttpAnswer, asked: URL, { endpoint, hasToken }: Pick<HttpClient, 'endpoint' | 'hasToken'>) {
    super(`${answer.url.host} answered ${answer.status}`)
    const token =
      asked.origin === endpoint.origin && !hasToken ? ', or set HF_TOKEN, with which the hub allows more' : ''
    this.limitAdvice = answer.status === 429 ? `it is limiting requests: wait some minutes${token}` : null
    this.seconds = secondsOf(answer.header('retry-after'))
  }
}

/** What the user can do about it. */
export function adviceOf(error: ConnectionError): string {
  const limit = error instanceof BusyError ? error.limitAdvice : null
  if (isUntrusted(error)) return ADVICE_OF_TRUST
  return limit ?? 'check the network, HTTPS_PROXY and HF_ENDPOINT'
}

/** The longest time to wait for a server that asks for it; a longer one is an error. */
const LONGEST_WAIT_S = 600

export interface Attempts {
  readonly tuning: Tuning
  readonly signal: AbortSignal
  /** Gets one line about each failure that is followed by another attempt. */
  readonly note: (message: string) => void
}

/**
 * Counts failed attempts, and waits between them.
 * @param limit attempts that may fail in a row.
 */
export function newPatience(limit: number, { signal, tuning, note }: Attempts) {
  let failures = 0
  return {
    /** Call it after progress: counting starts again. */
    reset(): void {
      failures = 0
    },
    /** Waits before the next attempt. @throws the error itself when no further attempt is made. */
    async wait(error: unknown): Promise<void> {
      signal.throwIfAborted()
      if (!(error instanceof ConnectionError) || ++failures >= limit) throw error
      const asked = error instanceof BusyError ? error.seconds : null
      if (asked !== null && asked > LONGEST_WAIT_S) {
        throw new HubError(`${error.message} and asks to wait ${Math.ceil(asked)} s; try again then`)
      }
      const pause = Math.min(tuning.longestRetryMs, tuning.retryMs * 2 ** (failures - 1))
      const ms = asked === null ? pause : asked * 1000
      note(`${error.message}; trying again in ${Math.max(1, Math.round(ms / 1000))} s`)
      await sleep(ms, undefined, { signal })
    },
  }
}

/** @throws the last failure. */
export async function retried<Result>(
  limit: number,
  attempts: Attempts,
  attempt: () => Promise<Result>,
): Promise<Result> {
  const patience = newPatience(limit, attempts)
  for (;;) {
    try {
      return await attempt()
    } catch (error) {
      await patience.wait(error)
    }
  }
}
