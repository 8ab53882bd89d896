/**
 * `ok`: as the card promises. `warning`: it works, with a limitation that users should know. `failed`: it does not do
 * what the card promises. `noise`: answers are no better than chance. `skipped`: not checked, for the given reason.
 * `measured`: a measurement without a verdict.
 */
type Verdict = 'ok' | 'warning' | 'failed' | 'noise' | 'skipped' | 'measured'

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
export function isIll(findings: readonly Pick<Finding, 'verdict'>[]): boolean {
  return findings.some(({ verdict }) => verdict === 'failed' || verdict === 'noise')
}

/** All findings in a few sentences: the first sentence of each bad one, and the names of warnings. */
export function overall(findings: readonly Finding[]): string {
  const warned = listed(findings.filter(({ verdict }) => verdict === 'warning').map(({ check }) => check))
  const warnings = warned === '' ? '' : ` Warnings: ${warned}.`
  if (!isIll(findings)) return `The model does what its card promises.${warnings}`
  const ills = findings.filter((one) => isIll([one])).map(firstSentence)
  return `${ills.join(' ')}${warnings}`
}

/** The bad findings, in a few words for a table; empty if there are none. */
export function brief(findings: readonly Pick<Finding, 'verdict' | 'finding'>[]): string {
  const ills = findings.filter((one) => isIll([one]))
  return ills.map((one) => lowered(firstSentence(one).replace(/(: .*)?[.]$/s, ''))).join('; ')
}

/** Why the model's places are unreliable, in one sentence; null if no finding says so. */
export function placesWarning(findings: readonly Finding[]): string | null {
  const found = findings.find(({ check }) => check === 'coordinates')
  return found !== undefined && isIll([found]) ? firstSentence(found) : null
}

/** Mean error of places in patches, in the notation of the card; null if it was not measured. */
export function placesError(findings: readonly Finding[]): number | null {
  const numbers = findings.find(({ check }) => check === 'coordinates')?.numbers
  const error = (numbers?.own as { readonly error?: unknown } | undefined)?.error
  return typeof error === 'number' && Number.isFinite(error) ? Math.round(error * 100) / 100 : null
}

/** A period within a number or a name does not end the sentence. */
function firstSentence({ finding }: Pick<Finding, 'finding'>): string {
  const [sentence = finding] = /^.*?[.](?=\s|$)/s.exec(finding) ?? []
  return sentence
}

function lowered(text: string): string {
  return text.slice(0, 1).toLowerCase() + text.slice(1)
}

const LIST = new Intl.ListFormat('en', { style: 'long', type: 'conjunction' })
/** `tools and thoughts`. */
export const listed = (names: readonly string[]) => LIST.format(names)

/** `of(3, 12)` is `3 of 12`. */
export const of = (count: number, total: number) => `${count} of ${total}`

/** The beginning of what a model wrote, in one line. */
export function quoted(text: string): string {
  const line = text.replace(/\s+/g, ' ').trim()
  return `'${line.length > LONGEST_QUOTE ? `${line.slice(0, LONGEST_QUOTE)}…` : line}'`
}

const LONGEST_QUOTE = 60
