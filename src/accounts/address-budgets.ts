import ipaddr from 'ipaddr.js'
import { LRUCache } from 'lru-cache'
import { type ApiError, rateLimited, tryAgainIn, wholeSeconds } from '../lib/errors/errors.ts'
import { getOrMake } from '../lib/get-or-make.ts'
import type { Clock } from './rate-limits.ts'

/** A token bucket for unknown keys: `burst` at once, and one more every `refillMs`. */
interface Rate {
  readonly burst: number
  readonly refillMs: number
}
const ONE_CLIENT: Rate = { burst: 20, refillMs: 3_000 }
/**
 * A loopback or private address may be a proxy that all clients share, so one of them must not lock out the others
 * easily. The database can bear this rate.
 */
const MANY_CLIENTS: Rate = { burst: 200, refillMs: 50 }
/** Addresses to remember; beyond that, the one seen longest ago starts over. */
const MAX_ADDRESSES = 10_000

interface Budget {
  readonly rate: Rate
  /** Milliseconds; a lookup costs `refillMs`. A count of lookups would need fractions, which do not add up exactly. */
  credit: number
  /** When the credit was last updated. */
  since: number
  /** Number of running lookups. */
  running: number
  /** Attempts that wait for a running lookup to end. */
  readonly waiting: PromiseWithResolvers<void>[]
}

/**
 * Limits how many unknown keys each address can have looked up in the database. Only unknown keys cost budget; until
 * the result is known a lookup counts as if its key were unknown, so that concurrent lookups cannot exceed the budget.
 */
export class AddressBudgets {
  readonly #clock: Clock
  readonly #budgets = new LRUCache<string, Budget>({ max: MAX_ADDRESSES })

  constructor(clock: Clock = () => performance.now()) {
    this.#clock = clock
  }

  /**
   * Runs a lookup if the address has budget left.
   * @param lookup of a key; resolves to null for an unknown key.
   * @throws ApiError 429, without a lookup, when the address has no budget left; otherwise what the lookup throws.
   */
  async attempt<Result>(address: string, lookup: () => Promise<Result | null>): Promise<Result | null> {
    const budget = this.#budget(address)
    while (budget.running >= this.#available(budget)) {
      if (budget.running === 0) throw tooMany(budget)
      const turn = Promise.withResolvers<void>()
      budget.waiting.push(turn)
      await turn.promise
    }
    budget.running++
    try {
      const result = await lookup()
      if (result === null) budget.credit -= budget.rate.refillMs
      budget.waiting.shift()?.resolve()
      return result
    } catch (error) {
      // The waiting attempts would fail the same way, only later.
      for (const turn of budget.waiting.splice(0)) turn.reject(error)
      throw error
    } finally {
      budget.running--
      if (budget.running === 0) for (const turn of budget.waiting.splice(0)) turn.resolve()
    }
  }

  #budget(address: string): Budget {
    const { name, rate } = rateOf(address)
    return getOrMake(this.#budgets, name, () => {
      return { rate, credit: rate.burst * rate.refillMs, since: this.#clock(), running: 0, waiting: [] }
    })
  }

  /** @returns the lookups that the budget allows now. */
  #available(budget: Budget): number {
    const now = this.#clock()
    const { burst, refillMs } = budget.rate
    budget.credit = Math.min(burst * refillMs, budget.credit + now - budget.since)
    budget.since = now
    return Math.floor(budget.credit / refillMs)
  }
}

/** An IPv6 address counts as its /64 network, because a client that has one address there has them all. */
function rateOf(address: string): { name: string; rate: Rate } {
  if (!ipaddr.isValid(address)) return { name: '', rate: ONE_CLIENT }
  const parsed = ipaddr.process(address)
  const rate = ['loopback', 'private', 'uniqueLocal', 'linkLocal'].includes(parsed.range()) ? MANY_CLIENTS : ONE_CLIENT
  const name = parsed instanceof ipaddr.IPv6 ? parsed.parts.slice(0, 4).join(':') : parsed.toString()
  return { name, rate }
}

function tooMany({ rate, credit }: Budget): ApiError {
  const seconds = wholeSeconds((rate.refillMs - credit) / 1000)
  return rateLimited(`Too many unknown API keys from this address. ${tryAgainIn(seconds)}`, seconds)
}
