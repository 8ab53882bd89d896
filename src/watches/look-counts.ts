import type { WatchMeter } from './watch-meter.ts'

/** Why a frame is not looked at. */
export type DropReason = 'busy' | 'late' | 'rate' | 'still'

/** What clients see of a running watch. */
export interface WatchReport extends Measured {
  readonly status: 'starting' | 'running' | 'offline' | 'waiting'
  readonly reason: string | null
  /** Details of the reason, if it is a fault of the camera. */
  readonly message: string | null
}

interface Measured {
  readonly counts: {
    readonly frames: number
    readonly looks: number
    readonly failed: number
    readonly suppressed: number
    readonly dropped: Readonly<Record<DropReason, number>>
  }
  readonly looked_fps: number
  readonly lag_ms: number | null
}

/** The number of latest looks over which their rate is measured. */
const MEASURED = 10

/** Counts what becomes of the frames of one watch. */
export class LookCounts {
  readonly #meter: WatchMeter | null
  readonly #dropped: Record<DropReason, number> = { busy: 0, late: 0, rate: 0, still: 0 }
  frames = 0
  looks = 0
  #failed = 0
  #lagMs: number | null = null
  /** When the latest looks ended. */
  #endedAt: readonly number[] = []

  constructor(meter: WatchMeter | null) {
    this.#meter = meter
  }

  drop(reason: DropReason): void {
    this.#dropped[reason]++
    this.#meter?.frameEnded(reason)
  }

  fail(): void {
    this.#failed++
    this.#meter?.frameEnded('failed')
  }

  /** @param since when the frame came. */
  settled(since: number, still: boolean): void {
    if (still) return
    const now = performance.now()
    this.#lagMs = Math.round(now - since)
    this.looks++
    this.#meter?.frameEnded('looked')
    this.#meter?.looked(now - since)
    this.#endedAt = [...this.#endedAt, now].slice(-MEASURED)
  }

  report(suppressed: number): Measured {
    const { frames, looks } = this
    const ended = this.#endedAt
    const since = (time: number) => (time - ended[0]!) / 1000
    // The rate falls when looks stop: the pause since the last look counts once it is longer than those before.
    const rate = Math.min((ended.length - 1) / since(ended.at(-1)!), ended.length / since(performance.now()))
    return {
      counts: { frames, looks, failed: this.#failed, suppressed, dropped: { ...this.#dropped } },
      looked_fps: ended.length < 2 ? 0 : Math.round(rate * 100) / 100,
      lag_ms: this.#lagMs,
    }
  }
}
