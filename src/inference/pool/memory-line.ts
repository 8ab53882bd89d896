import { sumOf } from '../../lib/sum.ts'
import type { PooledEngine } from './pooled-engine.ts'

interface MemoryLineOptions {
  /** Maximum bytes of all engines together, by their estimates; null for no limit. */
  readonly memoryLimitBytes: number | null
  /** How long engines take no new requests, in ms, before those that are still in use stay. */
  readonly drainMs: number
  /** Called when the turn of an engine has changed that had not asked. */
  readonly onTurn: () => void
}

interface Turn {
  /** The engines whose memory it gets; null while too few can leave. */
  readonly leaving: readonly PooledEngine[] | null
  /** Since when they take no new requests; null while they do. */
  readonly askedAt: number | null
  /** When to look again, if nothing changes before. */
  readonly dueAt: number
}

const NO_TURN: Turn = { leaving: null, askedAt: null, dueAt: Number.POSITIVE_INFINITY }

/**
 * The engines that wait for memory, in the order in which they came, and those that leave for each. What is idle leaves first.
 * If that is not enough, engines in use take no new requests, and leave when the running ones have ended. Their own requests
 * wait meanwhile, and bring them to the end of the line.
 */
export class MemoryLine {
  readonly #options: MemoryLineOptions
  readonly #turns = new Map<PooledEngine, Turn>()

  constructor(options: MemoryLineOptions) {
    this.#options = options
  }

  /** Whether an engine other than this one waits, and this one does not. */
  isAheadOf(engine: PooledEngine): boolean {
    return this.#turns.size > 0 && !this.#turns.has(engine)
  }

  /** When to ask again for an engine, if nothing changes before, by `performance.now()`. */
  dueAt(engine: PooledEngine): number {
    return this.#turns.get(engine)?.dueAt ?? Number.POSITIVE_INFINITY
  }

  /**
   * Looks for memory for an engine.
   * @returns the idle engines to unload for it; null while it must wait, in line.
   */
  ask(engine: PooledEngine, resident: ReadonlySet<PooledEngine>): readonly PooledEngine[] | null {
    if (this.#options.memoryLimitBytes === null) return []
    if (!this.#turns.has(engine)) this.#turns.set(engine, NO_TURN)
    // Those ahead of it choose first.
    let hasChanged = false
    for (const [one, before] of this.#turns) {
      const turn = this.#turnOf(one, [...resident])
      this.#turns.set(one, turn)
      if (one === engine) break
      hasChanged ||= turn.dueAt !== before.dueAt
    }
    if (hasChanged) this.#options.onTurn()
    const { leaving, askedAt } = this.#turns.get(engine)!
    if (askedAt === null || !leaving?.every(({ isIdle }) => isIdle)) return null
    this.#turns.delete(engine)
    engine.expectTurn(false)
    return leaving
  }

  /** @returns whether the engine stood in line. */
  leave(engine: PooledEngine): boolean {
    const turn = this.#turns.get(engine)
    if (turn === undefined) return false
    this.#turns.delete(engine)
    engine.expectTurn(false)
    for (const one of turn.leaving ?? []) one.stay()
    return true
  }

  /** Has engines give way, or go on, as the engine's turn now stands. */
  #turnOf(engine: PooledEngine, resident: readonly PooledEngine[]): Turn {
    const now = performance.now()
    const before = this.#turns.get(engine)!
    const isOver = before.askedAt !== null && now >= before.dueAt
    const late = isOver ? before.leaving!.filter(({ isIdle }) => !isIdle) : []
    for (const one of late) one.stay()
    const leaving = this.#leaversFor(engine, resident)
    for (const one of before.leaving ?? []) if (!leaving?.includes(one)) one.stay()
    engine.expectTurn(leaving !== null || (engine.wantsTurn && this.#isTurnOfOthers(engine)))
    if (leaving === null) return now < engine.turnFrom ? { ...NO_TURN, dueAt: engine.turnFrom } : NO_TURN
    // What has become idle meanwhile leaves at once, so that those that give way do not do so in vain.
    const staying = before.askedAt === null ? leaving : leaving.filter(({ isIdle }) => !isIdle)
    const mayAskAt = Math.max(0, ...staying.map(({ staysUntil }) => staysUntil))
    if (now < mayAskAt) {
      for (const one of leaving) one.stay()
      return { leaving, askedAt: null, dueAt: mayAskAt }
    }
    for (const one of leaving) one.giveWay()
    const askedAt = late.length > 0 ? now : (before.askedAt ?? now)
    return { leaving, askedAt, dueAt: askedAt + this.#options.drainMs }
  }

  /** Whether another one gets memory, which may leave in its turn. */
  #isTurnOfOthers(engine: PooledEngine): boolean {
    return [...this.#turns].some(([one, { leaving }]) => one !== engine && leaving !== null)
  }

  #leaversFor(engine: PooledEngine, resident: readonly PooledEngine[]): Turn['leaving'] {
    const others = [...this.#turns].filter(([one]) => one !== engine)
    const taken = new Set(others.flatMap(([, { leaving }]) => leaving ?? []))
    let free = this.#options.memoryLimitBytes! - bytesOf(resident)
    // What the others get beyond what leaves for them.
    for (const [one, { leaving }] of others) if (leaving !== null) free += Math.min(0, bytesOf(leaving) - one.bytes)
    const open = resident.filter((one) => one.bytes > 0 && !taken.has(one))
    const idle = open.filter(({ isIdle }) => isIdle).sort((a, b) => a.lastUse - b.lastUse)
    const used = engine.wantsTurn ? open.filter(({ isIdle, mayGiveWay }) => !isIdle && mayGiveWay) : []
    // Those that have begun to give way go on with it.
    used.sort((a, b) => Number(b.givesWay) - Number(a.givesWay) || a.staysUntil - b.staysUntil)
    const leaving: PooledEngine[] = []
    for (const one of [...idle, ...used]) {
      if (free >= engine.bytes) break
      leaving.push(one)
      free += one.bytes
    }
    return free < engine.bytes ? null : leaving
  }
}

function bytesOf(engines: readonly PooledEngine[]): number {
  return sumOf(engines, ({ bytes }) => bytes)
}
