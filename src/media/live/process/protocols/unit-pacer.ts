import type { AccessUnit } from '../camera-session.ts'

/** Timestamps that differ by more than this from the last ones belong to another clock. */
const JUMP_MS = 2_000
/** The longest wait of a timer. */
const LONGEST_WAIT_MS = 60_000

/** Hands out units that arrived in one burst, such as a segment of some seconds, one by one at their own pace. */
export class UnitPacer implements Disposable {
  readonly #onUnit: (unit: AccessUnit) => void
  #units: { readonly unit: AccessUnit; readonly at: number }[] = []
  #timer: NodeJS.Timeout | undefined
  /** From timestamps to the clock of `performance`. */
  #offset = 0
  #origin: number | null = null
  /** The last timestamp, and when its unit is due. */
  #last = 0
  #end = 0

  constructor(onUnit: (unit: AccessUnit) => void) {
    this.#onUnit = onUnit
  }

  /** How long the remaining units last. */
  get leftMs(): number {
    return this.#units.length === 0 ? 0 : Math.max(0, this.#end - performance.now())
  }

  /** @param goesOn whether the timestamps continue those before. */
  add(units: readonly AccessUnit[], goesOn: boolean): void {
    const now = performance.now()
    const first = Math.min(...units.slice(0, 16).map(({ mediaTime }) => mediaTime!))
    const isSame = goesOn && this.#origin !== null && Math.abs(first - this.#last) < JUMP_MS
    // Late units are not sped up, which would look like a backlog.
    this.#offset = Math.max(now, isSame ? this.#offset + first : this.#end) - first
    this.#origin ??= this.#offset + first
    for (const unit of units) {
      const time = this.#offset + unit.mediaTime!
      this.#last = unit.mediaTime!
      this.#end = Math.max(this.#end, time)
      this.#units.push({ unit: { ...unit, mediaTime: time - this.#origin }, at: this.#end })
    }
    this.#handOut()
  }

  #handOut(): void {
    clearTimeout(this.#timer)
    const now = performance.now()
    const due = this.#units.findIndex(({ at }) => at > now)
    for (const { unit } of this.#units.splice(0, due < 0 ? this.#units.length : due)) this.#onUnit(unit)
    const [next] = this.#units
    if (next !== undefined) this.#timer = setTimeout(() => this.#handOut(), Math.min(next.at - now, LONGEST_WAIT_MS))
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer)
    this.#units = []
  }
}
