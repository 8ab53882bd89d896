import ipaddr from 'ipaddr.js'
import { LRUCache } from 'lru-cache'
import { ApiError } from '../lib/errors.ts'
import type { Clock } from './rate-limits.ts'

/** Questions about keys that nobody holds: so many at once, and one more every so often. */
interface Rate {
  readonly burst: number
  readonly refillMs: number
}
const ONE_CLIENT: Rate = { burst: 20, refillMs: 3_000 }
/**
 * A loopback or private address may be a proxy's, which all clients share: they are not to be shut out by one among them
 * as easily, and the database can bear this.
 */
const MANY_CLIENTS: Rate = { burst: 200, refillMs: 50 }
/** Addresses that are remembered. When there are more, the one that asked longest ago starts with a full budget again. */
const MAX_ADDRESSES = 10_000

interface Budget {
  readonly rate: Rate
  /** In milliseconds, of which a question costs `refillMs`: thirds of a question would not add up to one. */
  credit: number
  /** When the credit was counted. */
  since: number
  /** Questions under way. */
  asking: number
  /** Those that wait for one of these to be answered. */
  readonly waiting: PromiseWithResolvers<void>[]
}

/**
 * Bounds what unknown keys can ask of the database, by the address that they come from. Only a key that nobody holds
 * costs; until that is known, a question counts as if it did, so that many at once do not pass together.
 */
export class AddressBudgets {
  readonly #clock: Clock
  readonly #budgets = new LRUCache<string, Budget>({ max: MAX_ADDRESSES })

  constructor(clock: Clock = () => performance.now()) {
    this.#clock = clock
  }

  /**
   * @param question is about a key; null is its answer when nobody holds that.
   * @throws ApiError 429, without having asked, when the address has no budget left; else what the question throws.
   */
  async ask<Answer>(address: string, question: () => Promise<Answer | null>): Promise<Answer | null> {
    const budget = this.#budget(address)
    while (budget.asking >= this.#count(budget)) {
      if (budget.asking === 0) throw tooMany(budget)
      const turn = Promise.withResolvers<void>()
      budget.waiting.push(turn)
      await turn.promise
    }
    budget.asking++
    try {
      const answer = await question()
      if (answer === null) budget.credit -= budget.rate.refillMs
      budget.waiting.shift()?.resolve()
      return answer
    } catch (error) {
      // Who waits would wait as long for the same.
      for (const turn of budget.waiting.splice(0)) turn.reject(error)
      throw error
    } finally {
      budget.asking--
      if (budget.asking === 0) for (const turn of budget.waiting.splice(0)) turn.resolve()
    }
  }

  #budget(address: string): Budget {
    const { name, rate } = rateOf(address)
    const known = this.#budgets.get(name)
    if (known !== undefined) return known
    const budget = { rate, credit: rate.burst * rate.refillMs, since: this.#clock(), asking: 0, waiting: [] }
    this.#budgets.set(name, budget)
    return budget
  }

  /** @returns the questions that may be asked now. */
  #count(budget: Budget): number {
    const now = this.#clock()
    const { burst, refillMs } = budget.rate
    budget.credit = Math.min(burst * refillMs, budget.credit + now - budget.since)
    budget.since = now
    return Math.floor(budget.credit / refillMs)
  }
}

/** Of IPv6, the network of a customer: whoever has one has all addresses in it. */
function rateOf(address: string): { name: string; rate: Rate } {
  if (!ipaddr.isValid(address)) return { name: '', rate: ONE_CLIENT }
  const parsed = ipaddr.process(address)
  const rate = ['loopback', 'private', 'uniqueLocal', 'linkLocal'].includes(parsed.range()) ? MANY_CLIENTS : ONE_CLIENT
  const name = parsed instanceof ipaddr.IPv6 ? parsed.parts.slice(0, 4).join(':') : parsed.toString()
  return { name, rate }
}

function tooMany({ rate, credit }: Budget): ApiError {
  const seconds = Math.max(1, Math.ceil((rate.refillMs - credit) / 1000))
  return new ApiError(
    `Too many unknown API keys from this address. Try again in ${seconds} ${seconds === 1 ? 'second' : 'seconds'}.`,
    { status: 429, type: 'rate_limit_error', code: 'rate_limit_exceeded', retryAfter: seconds },
  )
}
