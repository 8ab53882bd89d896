import { getOrMake } from '../lib/get-or-make.ts'
import type { Database } from '../storage/database.ts'
import { and, eq } from '../storage/drizzle.ts'
import * as tables from '../storage/schema.ts'
import type { Principal } from './principal.ts'
import type { UsageRecord } from './usage-ledger.ts'

const { spending } = tables

const FRESH_MS = 2_000

interface Spent {
  readonly month: string
  /** Credits in the database at the last read, plus those recorded here since. */
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
 * What organisations have spent of their monthly budgets. Requests are admitted until the budget is spent. Active
 * requests still run to their end, and spending on other servers is seen with a delay of seconds.
 */
export class Budgets {
  readonly #database: Database
  readonly #spent = new Map<string, Spent>()
  readonly #pending = new Map<string, Promise<Spent>>()

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
      const latest = this.#refresh(organisation, month)
      // With an earlier figure, there is no need to wait.
      if (usable) latest.catch(() => {})
      else spent = await latest
    }
    const next = Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1)
    return { exceeded: spent!.credits >= monthlyCredits, monthlyCredits, resetMs: next - now.getTime() }
  }

  add({ organisation, credits }: UsageRecord): void {
    const spent = this.#spent.get(organisation)
    if (spent) spent.credits += credits
  }

  #refresh(organisation: string, month: string): Promise<Spent> {
    return getOrMake(this.#pending, organisation, () =>
      this.#read(organisation, month).finally(() => this.#pending.delete(organisation)),
    )
  }

  async #read(organisation: string, month: string): Promise<Spent> {
    const [row] = await this.#database.use((queries) =>
      queries
        .select({ credits: spending.credits })
        .from(spending)
        .where(and(eq(spending.organisationId, organisation), eq(spending.month, month))),
    )
    // The database may lack records of this server, and this server those of others: the larger figure is newer.
    const before = this.#spent.get(organisation)
    const credits = Math.max(row?.credits ?? 0, before?.month === month ? before.credits : 0)
    const spent = { month, credits, since: performance.now() }
    this.#spent.set(organisation, spent)
    return spent
  }
}

/** The first day of the month, in UTC. */
function monthOf(time: Date): string {
  return `${time.toISOString().slice(0, 7)}-01`
}
