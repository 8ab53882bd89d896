import { and, eq } from 'drizzle-orm'
import { type Database, tables } from '../storage/index.ts'
import type { Principal } from './principal.ts'
import type { UsageRecord } from './usage-ledger.ts'

const { spending } = tables

const FRESH_MS = 2_000

interface Spent {
  readonly month: string
  /** Credits that the database knows of, and those recorded here since it was asked. */
  credits: number
  since: number
}

export interface BudgetState {
  readonly exceeded: boolean
  readonly monthlyCredits: number
  /** Milliseconds until the next month begins (UTC). */
  readonly resetMs: number
}

/**
 * What organisations have spent of their monthly budgets. A budget lets requests in until it is spent: those under way go
 * to their end, and other servers' spending is known with a delay of seconds.
 */
export class Budgets {
  readonly #database: Database
  readonly #spent = new Map<string, Spent>()
  readonly #asking = new Map<string, Promise<Spent>>()

  constructor(database: Database) {
    this.#database = database
  }

  /** Null for an organisation without a budget. */
  async state({ organisation, limits }: Principal, now = new Date()): Promise<BudgetState | null> {
    const { monthlyCredits } = limits
    if (monthlyCredits === undefined) return null
    const month = monthOf(now)
    const known = this.#spent.get(organisation)
    const usable = known?.month === month ? known : null
    let spent = usable
    if (!spent || performance.now() - spent.since > FRESH_MS) {
      const asked = this.#ask(organisation, month)
      // Known from before, it need not be waited for.
      if (usable) asked.catch(() => {})
      else spent = await asked
    }
    const next = Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1)
    return { exceeded: spent!.credits >= monthlyCredits, monthlyCredits, resetMs: next - now.getTime() }
  }

  add({ organisation, credits }: UsageRecord): void {
    const spent = this.#spent.get(organisation)
    if (spent) spent.credits += credits
  }

  #ask(organisation: string, month: string): Promise<Spent> {
    let asked = this.#asking.get(organisation)
    if (!asked) {
      asked = this.#read(organisation, month).finally(() => this.#asking.delete(organisation))
      this.#asking.set(organisation, asked)
    }
    return asked
  }

  async #read(organisation: string, month: string): Promise<Spent> {
    const [row] = await this.#database.use((queries) =>
      queries
        .select({ credits: spending.credits })
        .from(spending)
        .where(and(eq(spending.organisationId, organisation), eq(spending.month, month))),
    )
    // What was recorded here and is not in the database yet must not be forgotten: the larger figure is the later one.
    const before = this.#spent.get(organisation)
    const credits = Math.max(row?.credits ?? 0, before?.month === month ? before.credits : 0)
    const spent = { month, credits, since: performance.now() }
    this.#spent.set(organisation, spent)
    return spent
  }
}

/** First day of the month, UTC. */
function monthOf(time: Date): string {
  return `${time.toISOString().slice(0, 7)}-01`
}
