import { dim, note } from '../asking/screen.ts'

const BAR = 24
/** Time between lines if there is no terminal for a bar. */
const LINE_MS = 10_000

/**
 * Shows the progress of many pictures or requests: as a bar on a terminal, otherwise as occasional lines.
 * @param noun what is counted, in the plural.
 */
export function createProgress(noun: string) {
  const isBar = process.stderr.isTTY === true
  let isShown = false
  let [total, before, done] = [0, 0, 0]
  let [started, saidAt] = [0, 0]

  const text = () => {
    const minutes = (performance.now() - started) / 60_000
    const rate = (done - before) / minutes
    const left = total - done
    const pace = rate > 0 ? `, ${rate.toFixed(rate < 10 ? 1 : 0)} a minute` : ''
    const rest = rate > 0 && left > 0 ? `, ${span(left / rate)} left` : ''
    return `${done} of ${total} ${noun}${pace}${rest}`
  }
  const sayHowFar = () => {
    saidAt = performance.now()
    note(text())
  }
  const show = () => {
    if (!isBar) return
    isShown = true
    const filled = Math.round((BAR * done) / Math.max(1, total))
    const bar = '█'.repeat(filled) + '░'.repeat(BAR - filled)
    process.stderr.write(`\r\x1b[K${bar}  ${dim(text())}`)
  }
  /** Clears the bar for other output. */
  const clear = () => {
    if (isShown) process.stderr.write('\r\x1b[K')
  }
  return {
    clear,
    /** @param alreadyDone of all of them. */
    begin(all: number, alreadyDone: number): void {
      ;[total, before, done] = [all, alreadyDone, alreadyDone]
      started = performance.now()
      saidAt = started
      show()
    },
    advance(): void {
      done++
      if (isBar) show()
      else if (performance.now() - saidAt > LINE_MS) sayHowFar()
    },
    /** Prints another line. */
    say(line: string): void {
      clear()
      note(line)
    },
    end(): void {
      clear()
      sayHowFar()
    },
  }
}

function span(minutes: number): string {
  if (minutes < 1) return `${Math.ceil(minutes * 60)} s`
  return minutes < 90 ? `${Math.ceil(minutes)} min` : `${(minutes / 60).toFixed(1)} h`
}
