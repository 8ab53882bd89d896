import { sumOf } from '../../lib/sum.ts'
import type { PooledEngine } from './pooled-engine.ts'

interface MemoryLineOptions {
  /** Maximum bytes of all engines together, by their estimates; null for no limit. */
  readonly memoryLimitBytes: number | null
  /** Maximum time that engines accept no new requests, in ms; after that, engines that are still in use stay. */
  readonly drainMs: number
  /** Called when the turn of an engine other than the caller's has changed. */
  readonly onTurn: () => void
}

interface Turn {
  /** The engines whose memory it gets; null while too few can leave. */
  readonly leaving: readonly PooledEngine[] | null
  /** When they were asked to leave, and stopped accepting requests; null if they have not been asked. */
  readonly askedAt: number | null
  /** When to look again if nothing changes earlier. */
  readonly dueAt: number
}

const NO_TURN: Turn = { leaving: null, askedAt: null, dueAt: Number.POSITIVE_INFINITY }

/**
 * The queue of engines that wait for memory, in order of arrival, and the engines that leave for each. Idle engines
 * leave first. If that is not enough, engines in use accept no new requests, and leave when their running requests have
 * ended. Requests that arrive for them meanwhile wait, and put them at the end of the queue.
 */
export class MemoryLine {
  readonly #options: MemoryLineOptions
  readonly #turns = new Map<PooledEngine, Turn>()

  constructor(options: MemoryLineOptions) {
    this.#options = options
  }

  /** Whether another engine is waiting and this one is not. */
  isAheadOf(engine: PooledEngine): boolean {
    return this.#turns.size > 0 && !this.#turns.has(engine)
  }

  /** When to ask again for an engine if nothing changes earlier, by `performance.now()`. */
  dueAt(engine: PooledEngine): number {
    return this.#turns.get(engine)?.dueAt ?? Number.POSITIVE_INFINITY
  }

  /**
   * Tries to get memory for an engine.
   * @returns the idle engines to unload for it; null if it must wait in the queue.
   */
  ask(engine: PooledEngine, resident: ReadonlySet<PooledEngine>): readonly PooledEngine[] | null {
    if (this.#options.memoryLimitBytes === null) return []
    if (!this.#turns.has(engine)) this.#turns.set(engine, NO_TURN)
    // Engines ahead of it choose first.
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

  /** @returns whether the engine was in the queue. */
  leave(engine: PooledEngine): boolean {
    const turn = this.#turns.get(engine)
    if (turn === undefined) return false
    this.#turns.delete(engine)
    engine.expectTurn(false)
    for (const one of turn.leaving ?? []) one.stay()
    return true
  }

  /** Updates an engine's turn, and makes other engines give way or stay accordingly. */
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
    // An engine that has become idle leaves at once, so that those that give way do not do so in vain.
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

  /** Whether memory goes to another engine, which may later leave for this one. */
  #isTurnOfOthers(engine: PooledEngine): boolean {
    return [...this.#turns].some(([one, { leaving }]) => one !== engine && leaving !== null)
  }

  #leaversFor(engine: PooledEngine, resident: readonly PooledEngine[]): Turn['leaving'] {
    const others = [...this.#turns].filter(([one]) => one !== engine)
    const taken = new Set(others.flatMap(([, { leaving }]) => leaving ?? []))
    let free = this.#options.memoryLimitBytes! - bytesOf(resident)
    // Free memory that the others take beyond that of the engines that leave for them.
    for (const [one, { leaving }] of others) if (leaving !== null) free += Math.min(0, bytesOf(leaving) - one.bytes)
    const open = resident.filter((one) => one.bytes > 0 && !taken.has(one))
    const idle = open.filter(({ isIdle }) => isIdle).sort((a, b) => a.lastUse - b.lastUse)
    const used = engine.wantsTurn ? open.filter(({ isIdle, mayGiveWay }) => !isIdle && mayGiveWay) : []
    // Engines that already give way continue to.
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
