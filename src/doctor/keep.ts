import { hostname } from 'node:os'
import { version } from '../lib/version.ts'
import { areSame, filesOf } from '../models/card-files.ts'
import { type KeptExamination, keepExamination, readExamination } from '../models/kept-examination.ts'
import { LLAMA_RELEASE } from '../setup/native-library.mjs'
import { type CheckName, type ExaminationOptions, examineByCheck, FIRST_CHECKS, IMAGES } from './examination.ts'
import { type Finding, isIll, overall, placesError } from './finding.ts'

/** How often to check that the examined model has not changed. */
const LOOK_MS = 1_000

/** The card or one of its files has changed or gone, or another process examines the model now. */
export class Superseded extends Error {
  override readonly name = 'Superseded'
}

/** An examination of a card's model that has not begun. */
export async function newExamination(card: string): Promise<KeptExamination> {
  return {
    state: 'waiting',
    startedAt: new Date().toISOString(),
    finishedAt: null,
    lookout: await version(),
    llamaCpp: LLAMA_RELEASE,
    overall: null,
    ok: null,
    placesOffBy: null,
    findings: [],
    unchecked: [...FIRST_CHECKS],
    by: { pid: process.pid, host: hostname() },
    files: await filesOf(card),
  }
}

export function withFindings(examination: KeptExamination, findings: readonly Finding[]): KeptExamination {
  return {
    ...examination,
    findings: findings.map(({ check, verdict, finding }) => ({ check, verdict, finding })),
    overall: findings.length === 0 ? null : overall(findings),
    ok: findings.length === 0 ? null : !isIll(findings),
    placesOffBy: placesError(findings) ?? examination.placesOffBy,
  }
}

/** @param remark follows the findings. */
export function ended(
  examination: KeptExamination,
  state: 'done' | 'skipped' | 'failed',
  remark?: string,
): KeptExamination {
  const sentences = [examination.overall, remark].filter((sentence) => sentence != null)
  const told = sentences.length === 0 ? null : sentences.join(' ')
  return { ...examination, state, overall: told, finishedAt: new Date().toISOString() }
}

export interface KeepOptions extends Pick<ExaminationOptions, 'card' | 'engine' | 'media' | 'priority'> {
  /** The examination to continue. */
  readonly begun: KeptExamination
  readonly signal: AbortSignal
}

/**
 * Examines a stored model, and stores the findings beside its card, check by check. Of the states that it yields, only
 * the last one has ended.
 * @throws Superseded; Unavailable; the reason of the signal; an error of the system if nothing can be stored.
 */
export async function* keepExamining(options: KeepOptions): AsyncGenerator<KeptExamination, void, void> {
  const { file } = options.card
  let now: KeptExamination = { ...options.begun, state: 'running' }
  const keep = async () => {
    if (!(await keepExamination(file, now))) throw new Superseded()
    return now
  }
  const gone = new AbortController()
  const timer = setInterval(async () => {
    if (!(await isCurrent(file, now))) gone.abort(new Superseded())
  }, LOOK_MS)
  try {
    yield await keep()
    const { findings, unchecked } = options.begun
    const examined = examineByCheck({
      ...options,
      served: options.card.serves[0]!,
      images: IMAGES.first,
      checks: unchecked as CheckName[],
      earlier: findings,
      signal: AbortSignal.any([options.signal, gone.signal]),
    })
    for await (const { check, findings } of examined) {
      now = withFindings({ ...now, unchecked: now.unchecked.filter((one) => one !== check) }, [
        ...now.findings,
        ...findings,
      ])
      // Nothing more can be found out about a model that cannot be asked, or that writes no text.
      if (check === 'card') now = isIll(findings) ? ended(now, 'failed') : ended({ ...now, unchecked: [] }, 'done')
      else if (now.unchecked.length === 0) now = ended(now, 'done')
      yield await keep()
    }
  } catch (error) {
    gone.signal.throwIfAborted()
    throw error
  } finally {
    clearInterval(timer)
  }
}

/** Whether the card has not changed, and its stored examination is this one. */
async function isCurrent(card: string, { files, startedAt, by }: KeptExamination): Promise<boolean> {
  if (!areSame(files, await filesOf(card))) return false
  const kept = await readExamination(card)
  return kept === null || (kept.startedAt === startedAt && kept.by.pid === by.pid && kept.by.host === by.host)
}
