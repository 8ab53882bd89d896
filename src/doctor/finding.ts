/**
 * `ok`: as the card promises. `warning`: it works, and somebody should know this. `failed`: it does not do what the card
 * promises. `noise`: answers are no better than chance. `skipped`: nothing to check, for the reason given. `measured`:
 * nothing to judge by.
 */
export type Verdict = 'ok' | 'warning' | 'failed' | 'noise' | 'skipped' | 'measured'

/** One line of the report. */
export interface Finding {
  readonly check: string
  readonly verdict: Verdict
  /** One or two sentences. */
  readonly finding: string
  /** The numbers behind it, for programs. */
  readonly numbers?: Readonly<Record<string, unknown>>
}

/** Whether a model with these findings should not be served as its card says. */
export function isIll(findings: readonly Finding[]): boolean {
  return findings.some(({ verdict }) => verdict === 'failed' || verdict === 'noise')
}

/** All findings in one or two sentences. */
export function overall(findings: readonly Finding[]): string {
  const named = (verdict: Verdict) =>
    listed(findings.filter((one) => one.verdict === verdict).map(({ check }) => check))
  const [failed, noise, warned] = [named('failed'), named('noise'), named('warning')]
  const warnings = warned === '' ? '' : ` Warnings: ${warned}.`
  if (!isIll(findings)) return `The model does what its card promises.${warnings}`
  const ills = [...(failed === '' ? [] : [`${failed} failed`]), ...(noise === '' ? [] : [`${noise}: only noise`])]
  return `The model does not do what its card promises: ${ills.join('; ')}.${warnings}`
}

const LIST = new Intl.ListFormat('en', { style: 'long', type: 'conjunction' })
const listed = (names: readonly string[]) => LIST.format(names)

/** `of(3, 12)` is `3 of 12`. */
export const of = (count: number, total: number) => `${count} of ${total}`

/** The beginning of what a model wrote, in one line. */
export function quoted(text: string): string {
  const line = text.replace(/\s+/g, ' ').trim()
  return `'${line.length > LONGEST_QUOTE ? `${line.slice(0, LONGEST_QUOTE)}…` : line}'`
}

const LONGEST_QUOTE = 60
