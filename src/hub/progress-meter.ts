import type { Report } from './pull-event.ts'

/** Window over which the rate is measured. */
const WINDOW_MS = 5000
const REPORT_MS = 200

/** Reports the progress of one file now and then, while bytes arrive and while none do. */
export class ProgressMeter implements Disposable {
  readonly #report: Report
  readonly #file: string
  readonly #total: number
  readonly #timer: NodeJS.Timeout
  #samples: { readonly ms: number; readonly done: number }[] = []
  #done = 0
  #reported: string | null = null

  constructor(file: string, total: number, report: Report) {
    this.#report = report
    this.#file = file
    this.#total = total
    this.#timer = setInterval(() => this.#tell(), REPORT_MS)
    this.#timer.unref()
  }

  /** @param done bytes of the file that are there. */
  update(done: number): void {
    const isFirst = this.#samples.length === 0
    this.#done = done
    if (isFirst || done >= this.#total) this.#tell()
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer)
  }

  #tell(): void {
    const ms = performance.now()
    this.#samples.push({ ms, done: this.#done })
    const begin = this.#samples.findLastIndex((sample) => ms - sample.ms > WINDOW_MS)
    this.#samples = this.#samples.slice(Math.max(0, begin))
    const first = this.#samples[0]!
    // An attempt that starts again goes back to zero.
    const rate = ms > first.ms ? Math.max(0, (this.#done - first.done) / ((ms - first.ms) / 1000)) : 0
    const eta = rate > 0 ? (this.#total - this.#done) / rate : null
    const state = `${this.#done} ${Math.round(rate)}`
    if (state === this.#reported) return
    this.#reported = state
    this.#report({ type: 'progress', file: this.#file, done: this.#done, total: this.#total, rate, eta })
  }
}
