import { brief, listed } from '../../doctor/finding.ts'
import type { KeptExamination } from '../../models/kept-examination.ts'
import { forTerminal } from '../for-terminal.ts'

/** Limit for findings, which come from a file. */
const LONGEST = 300

/** A stored examination on one line: `2026-11-27: boxes are off by 3.2 patches on average`. */
export function describeExamination(examination: KeptExamination | null): string {
  if (examination === null) return 'no'
  const { state, startedAt, finishedAt, findings, unchecked } = examination
  const ills = brief(findings)
  const found = findings.length === 0 ? 'nothing is known' : ills === '' ? 'ok' : ills
  const left = unchecked.length === 0 ? '' : `; unchecked: ${listed(unchecked)}`
  const now = state === 'running' ? ', still examined' : state === 'waiting' ? ', waits to be examined' : ''
  const line = `${(finishedAt ?? startedAt).slice(0, 10)}: ${found}${left}${now}`.replace(/\s+/g, ' ')
  return forTerminal(line.length > LONGEST ? `${line.slice(0, LONGEST)}…` : line)
}

/** A stored examination for `--json`. */
export function toJson(examination: KeptExamination | null): object | null {
  if (examination === null) return null
  const { by: _by, files: _files, startedAt, finishedAt, llamaCpp, placesOffBy, ...found } = examination
  return { ...found, started_at: startedAt, finished_at: finishedAt, llama_cpp: llamaCpp, places_off_by: placesOffBy }
}
