import { signal } from '@preact/signals'
import type { Examination, Finding } from '../server-status/status-body.ts'

/** The model that was last fetched, or taken from the catalogue: its examination is shown where it is used. */
export const newModel = signal<string | null>(null)

/** What the doctor's checks look at, in a word. Others are called by their own names. */
const CHECKS: Readonly<Record<string, string>> = {
  template: 'prompts',
  images: 'sees',
  coordinates: 'boxes',
  'coordinates in plain words': 'boxes in plain words',
  'several images': 'several pictures',
  'forced call': 'tools',
  'chosen call': 'tools',
  'tool calls': 'tools',
  thinking: 'thoughts',
  'not thinking': 'thoughts',
  'JSON schema': 'JSON',
}
const MARKS: Readonly<Record<Finding['verdict'], string>> = {
  ok: '✓',
  measured: '✓',
  warning: '!',
  failed: '✗',
  noise: '✗',
  skipped: '–',
}

const WORST_FIRST: readonly Finding['verdict'][] = ['failed', 'noise', 'warning', 'ok', 'measured', 'skipped']

export function checkName(check: string): string {
  return CHECKS[check] ?? check
}

export function isUnderWay(examination: Examination | null | undefined): boolean {
  return examination?.state === 'waiting' || examination?.state === 'running'
}

/** `Checking: sees ✓, boxes …` while it is under way, and what came out of it later. */
export function progressText(examination: Examination): string {
  if (!isUnderWay(examination)) return resultText(examination)
  const marks = [
    ...verdictsOf(examination).map(([name, verdict]) => `${name}\u00a0${MARKS[verdict]}`),
    ...examination.unchecked.map((check) => `${checkName(check)}\u00a0…`),
  ]
  return marks.length === 0 ? 'Checking…' : `Checking: ${marks.join(', ')}`
}

/** In a few words, for lists of models; null where there is nothing to say of a model that was never pulled. */
export function shortText(examination: Examination | null | undefined): string | null {
  if (examination === null || examination === undefined) return null
  const { state, unchecked } = examination
  if (state === 'waiting') return 'Waiting to be checked'
  const ended = verdictsOf(examination).length
  if (state === 'running') return `Checking… ${ended} of ${ended + unchecked.length}`
  return resultText(examination)
}

/** What came of each check that has ended; a check may have several findings, of which the worst counts. */
function verdictsOf({ findings, unchecked }: Examination): readonly (readonly [string, Finding['verdict']])[] {
  const going = new Set(unchecked.map(checkName))
  const byName = Map.groupBy(findings, ({ check }) => checkName(check))
  return [...byName].flatMap(([name, found]) => {
    const worst = found.toSorted((a, b) => WORST_FIRST.indexOf(a.verdict) - WORST_FIRST.indexOf(b.verdict))[0]!
    return going.has(name) ? [] : [[name, worst.verdict] as const]
  })
}

function resultText(examination: Examination): string {
  if (examination.state === 'skipped' && examination.findings.length === 0) return 'Not checked'
  if (examination.state === 'failed') return examination.overall ?? 'The check did not work'
  const sight = examination.findings.find(({ check }) => check === 'images')
  if (sight && isBad(sight)) return 'Checked: it does not see pictures'
  const warning = placesWarning(examination)
  if (warning !== null) return warning
  const error = examination.places_off_by
  if (error !== null) return `Checked: boxes within ${error <= 1 ? 'a patch' : patches(error)}`
  if (examination.ok === false) return examination.overall ?? 'Checked: with faults'
  return examination.state === 'skipped' ? 'Checked in part' : 'Checked'
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

function isBad({ verdict }: Finding): boolean {
  return verdict === 'failed' || verdict === 'noise'
}
