import { dim, note } from '../asking/screen.ts'

const BAR = 24
/** Time between lines where no terminal shows a bar. */
const LINE_MS = 10_000

/** Shows how far many pictures or requests are: as a bar on a terminal, elsewhere as a line now and then. */
export class Progress {
  readonly #noun: string
  readonly #isBar = process.stderr.isTTY === true
  #isShown = false
  #total = 0
  /** How many were done before. */
  #before = 0
  #done = 0
  #started = 0
  #saidAt = 0

  /** @param noun what is counted, in the plural. */
  constructor(noun: string) {
    this.#noun = noun
  }

  begin(total: number, before: number): void {
    this.#total = total
    this.#before = before
    this.#done = before
    this.#started = performance.now()
    this.#saidAt = this.#started
    this.#show()
  }

  advance(): void {
    this.#done++
    if (this.#isBar) this.#show()
    else if (performance.now() - this.#saidAt > LINE_MS) this.#sayHowFar()
  }

  /** Makes room for something else. */
  clear(): void {
    if (this.#isShown) process.stderr.write('\r\x1b[K')
  }

  /** Says something else. */
  say(line: string): void {
    this.clear()
    note(line)
  }

  end(): void {
    this.clear()
    this.#sayHowFar()
  }

  #sayHowFar(): void {
    this.#saidAt = performance.now()
    note(this.#text)
  }

  #show(): void {
    if (!this.#isBar) return
    this.#isShown = true
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
