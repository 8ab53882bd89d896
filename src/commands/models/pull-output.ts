import type { Choice, PullEvent, Report } from '../../hub/pull-event.ts'
import { formatBytes, formatSeconds } from '../../hub/units.ts'
import { LINE_COLUMNS, printTable, wrap } from '../output.ts'

/** Interval of a file's progress lines without a terminal. */
const LINE_MS = 10_000
const BAR_CELLS = 24
/** Width of the figures after a bar. */
const FIGURES_COLUMNS = 54
const CLEAR_LINE = '\r\x1b[K'

/**
 * Prints events as text: results on standard output, and progress on standard error, with a bar for each file if that
 * is a terminal.
 */
export function textReport(): Report {
  const terminal = process.stderr.isTTY ? process.stderr : null
  let bar = ''
  let toldMs = performance.now()
  const say = (line: string) => process.stderr.write(`${bar === '' ? '' : CLEAR_LINE}${line}\n${bar}`)
  return (event) => {
    switch (event.type) {
      case 'choice':
        return printChoice(event)
      case 'note':
        return void say(event.message)
      case 'found':
        return void say(`${event.file} is here already: ${event.path}`)
      case 'check':
        return void (terminal === null && say(`${event.file}: checking`))
      case 'progress': {
        const isWhole = event.done >= event.total
        if (terminal !== null) {
          bar = CLEAR_LINE + toBar(event, terminal.columns ?? 80)
          terminal.write(isWhole ? `${bar}\n` : bar)
          if (isWhole) bar = ''
          return
        }
        if (!isWhole && performance.now() - toldMs < LINE_MS) return
        toldMs = performance.now()
        return void say(toLine(event))
      }
      case 'done':
        return printDone(event)
      case 'error':
        return void say(event.message)
    }
  }
}

type Done = Extract<PullEvent, { type: 'done' }>
type Progress = Extract<PullEvent, { type: 'progress' }>

function toLine({ file, done, total, rate, eta }: Progress): string {
  const share = total === 0 ? 100 : Math.floor((done / total) * 100)
  const left = eta === null || done >= total ? '' : `, ${formatSeconds(eta)} left`
  return `${file}: ${formatBytes(done)} of ${formatBytes(total)} (${share} %), ${formatBytes(rate)}/s${left}`
}

/** One line of the terminal: the name, a bar in the remaining room, and figures. */
function toBar(event: Progress, columns: number): string {
  const { file, done, total, rate, eta } = event
  const share = total === 0 ? 1 : done / total
  const left = done >= total ? 'done' : eta === null ? '' : `${formatSeconds(eta)} left`
  const percent = String(Math.floor(share * 100)).padStart(3)
  const figures = `${percent} %  ${formatBytes(done)} of ${formatBytes(total)}  ${formatBytes(rate)}/s  ${left}`
  const room = columns - FIGURES_COLUMNS
  const longest = Math.max(8, Math.floor(room * 0.6))
  const name = file.length > longest ? `…${file.slice(1 - longest)}` : file
  const cells = Math.min(BAR_CELLS, Math.max(4, room - name.length - 4))
  const full = Math.floor(share * cells)
  return `${name}  ${'█'.repeat(full)}${'░'.repeat(cells - full)} ${figures}`.slice(0, columns - 1)
}

function printChoice({
  model,
  commit,
  available,
  context,
  choices,
  projector,
}: Extract<PullEvent, { type: 'choice' }>): void {
  process.stdout.write(`${model} at ${commit.slice(0, 12)}; ${formatBytes(available)} of memory are available\n\n`)
  printTable(['', 'QUANT', 'FILES', 'MEMORY', 'FITS', ''], choices.map(toRow))
  process.stdout.write(`\nMEMORY is an estimate for ${context} tokens of context and the largest image.\n`)
  if (projector !== null) process.stdout.write(`Projector: ${projector.file} (${projector.reason})\n`)
}

function toRow({ quant, bytes, memory, fits, cached, chosen }: Choice): string[] {
  return [chosen ? '*' : '', quant, formatBytes(bytes), formatBytes(memory), fits, cached ? 'in the cache' : '']
}

function printDone({ id, aliases, card, projector, replaces, faults, prompt }: Done): void {
  if (replaces !== null) process.stdout.write(`Replaced the card of ${id} (${replaces})\n`)
  const text = projector === null ? ', for text only: it has no projector' : ''
  const names = aliases.length === 0 ? '' : `, also as ${aliases.join(', ')}`
  process.stdout.write(`${id} is ready${names}${text}\nCard: ${card}\n`)
  for (const fault of faults) process.stdout.write(`${wrap(`Known: ${fault}`, LINE_COLUMNS).join('\n  ')}\n`)
  if (prompt !== null) process.stdout.write(`It was trained with this prompt: ${prompt}\n`)
}
