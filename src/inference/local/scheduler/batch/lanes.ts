import type { Adapter } from '../../native/adapter.ts'

/** The steps of one adapter, or of the model alone: one step cannot compute both. */
export interface Lane {
  /** Null for the model alone. */
  readonly adapter: Adapter | null
  round: number
  wasMedia: boolean
  wasPrompt: boolean
  /** Time by which the last media step exceeded all other steps since, in ms. */
  mediaLeadMs: number
  /** Number of its last turn. */
  lastTurn: number
}

/** Minimum duration of a turn beside other lanes, in ms: changing the adapter takes some milliseconds. */
const TURN_MS = 20

/** Decides which adapter has the next step. Adapters with something to compute take turns of about equal duration. */
export class Lanes {
  readonly #lanes = new Map<Adapter | null, Lane>()
  #current = this.#laneOf(null)
  #turns = 0
  #turnMs = 0

  /** The lane of the next step. @param present adapters with something to compute. */
  next(present: ReadonlySet<Adapter | null>): Lane {
    const goesOn = this.#turnMs < TURN_MS && present.has(this.#current.adapter)
    if (goesOn || present.size === 0) return this.#current
    const lanes = Array.from(present, (adapter) => this.#laneOf(adapter))
    this.#current = lanes.reduce((a, b) => (b.lastTurn < a.lastTurn ? b : a))
    this.#current.lastTurn = ++this.#turns
    this.#turnMs = 0
    return this.#current
  }

  /** Counts the time of a step of the current lane. */
  learn(ms: number): void {
    this.#turnMs += ms
  }

  #laneOf(adapter: Adapter | null): Lane {
    const known = this.#lanes.get(adapter)
    if (known !== undefined) return known
    const lane = { adapter, round: 0, wasMedia: false, wasPrompt: false, mediaLeadMs: 0, lastTurn: 0 }
    this.#lanes.set(adapter, lane)
    return lane
  }
}
