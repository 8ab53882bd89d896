import { signal } from '@preact/signals'
import { callJson } from '../server/call.ts'
import { type Failure, toFailure } from '../server/failure.ts'
import { askStatus } from '../server-status/status.ts'
import type { Examination } from '../server-status/status-body.ts'
import { Button } from '../widgets/button.tsx'
import { FailureNotice } from '../widgets/notices/failure-notice.tsx'
import { checkName, isBad, isUnderWay, resultText, shortText } from './examination.ts'

interface ExaminationViewProps {
  readonly id: string
  readonly examination: Examination
  /** Whether the page's key may skip and repeat it. */
  readonly mayChange: boolean
}

const changeFailure = signal<{ readonly id: string; readonly failure: Failure; retry(): void } | null>(null)

/** What the doctor found out about a model: in a line, and check by check on demand. */
export function ExaminationView({ id, examination, mayChange }: ExaminationViewProps) {
  const { findings, unchecked } = examination
  const isGoingOn = isUnderWay(examination)
  const failed = changeFailure.value
  return (
    <div class="examination">
      <div class="examination-head">
        <p class={examination.ok === false ? 'bad' : ''} role="status">
          {shortText(examination)}
        </p>
        {mayChange && (
          <Button kind="quiet" onClick={() => void change(id, isGoingOn ? 'DELETE' : 'POST')}>
            {isGoingOn ? 'Skip the check' : examination.state === 'skipped' ? 'Check it' : 'Check again'}
          </Button>
        )}
      </div>
      {failed?.id === id && <FailureNotice failure={failed.failure} onRetry={failed.retry} />}
      {findings.length > 0 && (
        <details>
          <summary>Each check</summary>
          <dl class="model-facts">
            {findings.map(({ check, verdict, finding }) => (
              <div key={check}>
                <dt>{checkName(check)}</dt>
                <dd>
                  {verdict}: {finding}
                </dd>
              </div>
            ))}
            {unchecked.map((check) => (
              <div key={check}>
                <dt>{checkName(check)}</dt>
                <dd>{isGoingOn ? 'not yet' : 'not checked'}</dd>
              </div>
            ))}
          </dl>
        </details>
      )}
    </div>
  )
}

/** `Checking: sees ✓, boxes …` while it is under way, and what came out of it later. */
export function progressText(examination: Examination): string {
  if (!isUnderWay(examination)) return resultText(examination)
  const marks = new Map<string, string>()
  for (const finding of examination.findings) {
    const mark = isBad(finding) ? '✗' : finding.verdict === 'warning' ? '!' : '✓'
    const name = checkName(finding.check)
    // A check may have several findings; a bad one counts.
    if (mark !== '✓' || !marks.has(name)) marks.set(name, mark)
  }
  for (const check of examination.unchecked) marks.set(checkName(check), '…')
  return marks.size === 0 ? 'Checking…' : `Checking: ${[...marks].map((one) => one.join('\u00a0')).join(', ')}`
}

async function change(id: string, method: 'POST' | 'DELETE'): Promise<void> {
  changeFailure.value = null
  try {
    await callJson(`/v1/models/${encodeURIComponent(id)}/examination`, { method })
  } catch (error) {
    changeFailure.value = { id, failure: toFailure(error), retry: () => void change(id, method) }
  }
  await askStatus()
}
