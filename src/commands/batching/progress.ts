import { dim, note } from '../asking/screen.ts'

const BAR = 24
/** Time between lines where no terminal shows a bar. */
const LINE_MS = 10_000

/** Shows how far many pictures or requests are: as a bar on a terminal, elsewhere as a line now and then. */
export class Progress {
  readonly #total: number
  readonly #noun: string
  readonly #isBar = process.stderr.isTTY === true
  readonly #started = performance.now()
  /** How many were done before. */
  readonly #before: number
  #done: number
  #saidAt = performance.now()

  /** @param noun what is counted, in the plural. */
  constructor(total: number, before: number, noun: string) {
    this.#total = total
    this.#noun = noun
    this.#before = before
    this.#done = before
    this.#show()
  }

  advance(): void {
    this.#done++
    if (this.#isBar) this.#show()
    else if (performance.now() - this.#saidAt > LINE_MS) this.#say()
  }

  /** Makes room for something else to be said. */
  clear(): void {
    if (this.#isBar) process.stderr.write('\r\x1b[K')
  }

  end(): void {
    this.clear()
    this.#say()
  }

  #say(): void {
    this.#saidAt = performance.now()
    note(this.#text)
  }

  #show(): void {
    if (!this.#isBar) return
    const filled = Math.round((BAR * this.#done) / Math.max(1, this.#total))
    const bar = '█'.repeat(filled) + '░'.repeat(BAR - filled)
    process.stderr.write(`\r\x1b[K${bar} ${dim(this.#text)}`)
  }

  get #text(): string {
    const minutes = (performance.now() - this.#started) / 60_000
    const rate = (this.#done - this.#before) / minutes
    const left = this.#total - this.#done
    const pace = rate > 0 ? `, ${rate.toFixed(rate < 10 ? 1 : 0)} a minute` : ''
    const rest = rate > 0 && left > 0 ? `, ${span(left / rate)} left` : ''
    return `${this.#done} of ${this.#total} ${this.#noun}${pace}${rest}`
  }
}

function span(minutes: number): string {
  if (minutes < 1) return `${Math.ceil(minutes * 60)} s`
  return minutes < 90 ? `${Math.ceil(minutes)} min` : `${(minutes / 60).toFixed(1)} h`
}
