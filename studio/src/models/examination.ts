import { signal } from '@preact/signals'
import type { Examination, Finding } from '../server-status/status-body.ts'

/** The id of the model that was fetched last: what its examination finds is news. */
export const newModel = signal<string | null>(null)

/** What the doctor's checks look at, in a word. Others are called by their own names. */
const CHECKS: Readonly<Record<string, string>> = {
  template: 'prompts',
  images: 'sees',
  coordinates: 'boxes',
  'forced call': 'tools',
  'chosen call': 'tools',
  'tool calls': 'tools',
  thinking: 'thoughts',
  'not thinking': 'thoughts',
}

export function checkName(check: string): string {
  return CHECKS[check] ?? check
}

export function isUnderWay(examination: Examination | null | undefined): boolean {
  return examination?.state === 'waiting' || examination?.state === 'running'
}

/** In a few words, for lists of models; null where there is nothing to say of a model that was never pulled. */
export function shortText(examination: Examination | null | undefined): string | null {
  if (examination === null || examination === undefined) return null
  const { state, findings, unchecked } = examination
  if (state === 'waiting') return 'Waiting to be checked'
  // A check may have several findings.
  const all = new Set([...findings.map(({ check }) => check), ...unchecked].map(checkName)).size
  if (state === 'running') return `Checking… ${all - unchecked.length} of ${all}`
  return resultText(examination)
}

/** What came out of an examination that is over. */
export function resultText(examination: Examination): string {
  if (examination.state === 'skipped' && examination.findings.length === 0) return 'Not checked'
  if (examination.state === 'failed') return examination.overall ?? 'Not checked'
  const sight = examination.findings.find(({ check }) => check === 'images')
  if (sight && isBad(sight)) return 'Checked: it does not see pictures'
  const warning = placesWarning(examination)
  if (warning !== null) return warning
  const error = examination.places_off_by
  if (error !== null) return `Checked: boxes within ${error <= 1 ? 'a patch' : patches(error)}`
  return (!examination.ok && examination.overall) || 'Checked'
}

/** What is wrong with the boxes or points of a model, in a few words; null where nothing is, or it is not known. */
export function placesWarning(examination: Examination | null | undefined): string | null {
  const finding = examination?.findings.find(({ check }) => check === 'coordinates')
  if (finding === undefined) return null
  // `Boxes are off by 3.2 patches on average: use another model for places, or see docs/doctor.md. They follow ...`
  const [said = ''] = finding.finding.split(/: |[.](?=\s|$)/)
  if (isBad(finding)) return said
  const error = examination!.places_off_by
  if (finding.verdict !== 'warning' || error === null) return null
  return `${said.startsWith('Points') ? 'Points' : 'Boxes'} are off by ${patches(error)}`
}

function patches(error: number): string {
  return `${error.toFixed(1)} patches`
}

export function isBad({ verdict }: Finding): boolean {
  return verdict === 'failed' || verdict === 'noise'
}
