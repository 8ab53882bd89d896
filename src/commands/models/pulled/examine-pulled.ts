import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { type Config, ConfigError } from '../../../config/config.ts'
import { FIRST_CHECKS } from '../../../doctor/examination.ts'
import { type Finding, listed } from '../../../doctor/finding.ts'
import { formatBytes } from '../../../hub/units.ts'
import { describeCard, servableCard } from '../../../inference/engines/engines.ts'
import { withTimeout } from '../../../lib/with-timeout.ts'
import { loadCard } from '../../../models/card.ts'
import type { KeptExamination } from '../../../models/kept-examination.ts'
import { memoryForModels } from '../../../models/machine-memory.ts'
import { forTerminal } from '../../for-terminal.ts'
import { printJsonLine } from '../../output.ts'
import { warn } from '../../warn.ts'

export interface ExaminationTask {
  /** A card of the model store. */
  readonly file: string
  readonly backend: Config['backend']
}

export interface ExaminePulledOptions {
  readonly config: Pick<Config, 'backend' | 'caches' | 'modelMemoryBytes'>
  /** The id that the model is served under. */
  readonly id: string
  /** The card of the model. */
  readonly file: string
  /** How long to wait before it continues in the background. */
  readonly seconds: number
  readonly json: boolean
}

const PROGRAM = fileURLToPath(new URL('examination-process.ts', import.meta.url))
/** Time for the process to release the model and store its findings. */
const STOP_MS = 10_000
const CHECK_COLUMNS = 14
const VERDICT_COLUMNS = 9

/**
 * Examines a model that has just been pulled, in a process that continues in the background after some time. Ctrl-C
 * skips it. Its failures are no errors of the command.
 */
export async function examinePulled({ config, id, file, seconds, json }: ExaminePulledOptions): Promise<void> {
  const problem = await problemOf(file, config)
  if (problem !== null) {
    const sentence = `${id} is not examined: ${problem}`
    if (json)
      printJsonLine({ type: 'examination', state: 'skipped', overall: sentence, ok: null, findings: [], unchecked: [] })
    else process.stdout.write(`${sentence}\n`)
    return
  }
  if (!json) process.stdout.write(`\nChecking what the model can do. Ctrl-C skips this.\n`)
  const child = fork(PROGRAM, { serialization: 'advanced', stdio: 'ignore', detached: true })
  const exited = once(child, 'exit').then(() => 'ended' as const)
  let latest: KeptExamination | null = null
  let told = 0
  child.on('message', (now: KeptExamination) => {
    latest = now
    if (json) printJsonLine(toEvent(now))
    else for (const finding of now.findings.slice(told)) process.stdout.write(lineOf(finding))
    told = now.findings.length
  })
  const task: ExaminationTask = { file, backend: config.backend }
  const sent = new Promise((resolve) => child.send(task, resolve))
  const skipped = Promise.withResolvers<'skipped'>()
  const skip = () => skipped.resolve('skipped')
  process.on('SIGINT', skip)
  process.on('SIGTERM', skip)
  const how = await withTimeout(seconds * 1000, Promise.race([exited, skipped.promise]), 'late' as const)
  if (how === 'skipped') {
    child.kill('SIGTERM')
    const kill = setTimeout(() => child.kill('SIGKILL'), STOP_MS)
    await exited
    clearTimeout(kill)
  }
  await sent
  if (child.connected) child.disconnect()
  child.unref()
  if (json) return
  // Only the listener assigns `latest`, which the compiler does not see.
  process.stdout.write(forTerminal(`\n${resultOf(id, how, latest as KeptExamination | null)}\n`))
}

/** @throws ConfigError */
export function readSeconds(text: string | undefined): number {
  if (text === undefined) return 60
  if (/^\d{1,4}$/.test(text)) return Number(text)
  throw new ConfigError(`--check-seconds: expected a number from 0 to 9999, not '${text}'`)
}

/** Why the model cannot be examined on this machine; null if it can. */
async function problemOf(file: string, { caches, modelMemoryBytes }: ExaminePulledOptions['config']) {
  try {
    const card = servableCard(await loadCard(file, () => {}, { load: 'first_use' }), warn)
    const { memoryBytes } = await describeCard(card, caches)
    const free = memoryForModels(modelMemoryBytes)
    if (memoryBytes <= free) return null
    return `it takes about ${formatBytes(memoryBytes)} of memory, and ${formatBytes(free)} are free`
  } catch (error) {
    return (error as Error).message
  }
}

function resultOf(id: string, how: 'ended' | 'late' | 'skipped', examination: KeptExamination | null): string {
  const unchecked = listed(examination?.unchecked ?? FIRST_CHECKS)
  const overall = examination?.overall ?? null
  if (how === 'late' && unchecked !== '') {
    return `Still unchecked: ${unchecked}. It goes on in the background; lookout models shows the result.`
  }
  const rest = unchecked === '' ? '' : ` Unchecked: ${unchecked}. lookout doctor ${id} examines it.`
  return `${how === 'skipped' ? 'Skipped. ' : ''}${overall ?? 'Nothing is known of the model.'}${rest}`
}

function lineOf({ check, verdict, finding }: Pick<Finding, 'check' | 'verdict' | 'finding'>): string {
  return forTerminal(`  ${check.padEnd(CHECK_COLUMNS)} ${verdict.padEnd(VERDICT_COLUMNS)} ${finding}\n`)
}

function toEvent({ state, overall, ok, findings, unchecked }: KeptExamination): object {
  return { type: 'examination', state, overall, ok, findings, unchecked }
}
