import type { EngineState } from '../inference/contract/engine.ts'
import type { EngineStats } from '../inference/contract/stats.ts'
import { withTimeout } from '../lib/with-timeout.ts'

/** The parts of an engine that metrics read. */
export interface MeasuredEngine {
  readonly model: { readonly name: string; readonly memoryBytes: number | null }
  readonly state: EngineState
  /** Requests waiting for it to load. */
  readonly waiting: number
  stats(): Promise<EngineStats>
}

/** An engine in the middle of a long step responds late; its numbers are then omitted. */
const STATS_LIMIT_MS = 2_000

/** @returns null for an engine that is not ready, or does not respond in time. */
export async function statsOf(engine: MeasuredEngine): Promise<EngineStats | null> {
  if (engine.state !== 'ready') return null
  // It may end in the meantime.
  return withTimeout(STATS_LIMIT_MS, engine.stats(), null).catch(() => null)
}
