/**
 * The process that examines a model after `lookout pull`. It outlives the command, and stores its findings beside the
 * card.
 *
 * It gets an `ExaminationTask`, and sends a `KeptExamination` after each check. SIGTERM skips the rest.
 */
import { once } from 'node:events'
import { ended, keepExamining, newExamination, Superseded, withFindings } from '../../../doctor/keep.ts'
import { servableCard, startEngine } from '../../../inference/engines/engines.ts'
import { loadCard } from '../../../models/card.ts'
import { type KeptExamination, keepExamination, LONGEST_MS } from '../../../models/kept-examination.ts'
import type { ExaminationTask } from './examine-pulled.ts'

class Late extends Error {}

const stop = new AbortController()
process.on('SIGTERM', () => stop.abort())
// The terminal may be closed meanwhile.
process.on('SIGHUP', () => {})
setTimeout(() => stop.abort(new Late()), LONGEST_MS).unref()

async function main({ file, backend }: ExaminationTask): Promise<void> {
  const card = servableCard(await loadCard(file, () => {}, { load: 'first_use' }), () => {})
  let examination: KeptExamination = { ...(await newExamination(file)), state: 'running' }
  const keep = async (now: KeptExamination) => {
    examination = now
    if (await keepExamination(file, now)) await say(now)
  }
  await keep(examination)
  const { signal } = stop
  const engine = await startEngine(card, { seed: 1, backend, signal }).catch((error: Error) => error)
  try {
    if (signal.aborted) throw signal.reason
    if (engine instanceof Error) {
      const finding = {
        check: 'load',
        verdict: 'failed',
        finding: `The model cannot be loaded: ${engine.message}`,
      } as const
      await keep(ended(withFindings(examination, [finding]), 'failed'))
      return
    }
    for await (const now of keepExamining({ card, engine, begun: examination, signal })) {
      examination = now
      await say(now)
    }
  } catch (error) {
    if (error instanceof Superseded) return
    const late = `It was not examined to the end within ${LONGEST_MS / 60_000} minutes: lookout doctor does that.`
    const remark = error instanceof Late ? late : `It was not examined to the end: ${(error as Error).message}.`
    await keep(
      signal.aborted && !(error instanceof Late) ? ended(examination, 'skipped') : ended(examination, 'failed', remark),
    )
  } finally {
    if (!(engine instanceof Error)) await engine.close()
  }
}

/** The command may have ended. */
function say(examination: KeptExamination): Promise<void> {
  if (!process.connected) return Promise.resolve()
  return new Promise((resolve) => process.send!(examination, () => resolve()))
}

const [task] = (await Promise.race([once(process, 'message'), once(process, 'disconnect')])) as [ExaminationTask?]
if (task !== undefined) await main(task)
process.exit(0)
