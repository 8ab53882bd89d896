import { setTimeout as delay } from 'node:timers/promises'
import type { EngineState } from '../inference/contract/engine.ts'
import type { EngineStats } from '../inference/contract/stats.ts'

/** The parts of an engine that metrics read. */
export interface MeasuredEngine {
  readonly model: { readonly name: string; readonly memoryBytes: number | null }
  readonly state: EngineState
  /** Requests waiting for it to load. */
  readonly waiting: number
  stats(): Promise<EngineStats>
}

/** An engine in the middle of a long step responds late; its numbers are then left out. */
const STATS_LIMIT_MS = 2_000

/** @returns null for an engine that is not ready, or does not answer in time. */
export async function statsOf(engine: MeasuredEngine): Promise<EngineStats | null> {
  if (engine.state !== 'ready') return null
  const waiting = new AbortController()
  const late = delay(STATS_LIMIT_MS, null, { signal: waiting.signal }).catch(() => null)
  try {
    return await Promise.race([engine.stats(), late])
  } catch {
    // The engine ended in the meantime.
    return null
  } finally {
    waiting.abort()
  }
}
