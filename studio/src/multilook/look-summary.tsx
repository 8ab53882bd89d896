import { model } from '../server/connection.ts'
import { Button } from '../widgets/button.tsx'
import { CopyButton } from '../widgets/copy-button.tsx'
import { download } from '../widgets/download.ts'
import { counted, countText, millisecondsText } from '../widgets/quantities.ts'
import { type AnsweredQuestion, toCsv, toJson, toText } from './answer-export.ts'
import { facts, isLooking, rows } from './look.ts'
import { type LookFacts, sharingOf } from './look-facts.ts'
import { questions } from './questions.ts'

/** What the questions took and saved, and ways to take the answers along. */
export function LookSummary() {
  const known = facts.value
  const shown = questions.value.flatMap(({ id }) => rows.value.get(id) ?? [])
  const done = shown.filter(({ status }) => status.value === 'done').length
  if (shown.length === 0) return null
  return (
    <div class="look-summary">
      <p class="look-facts" role="status">
        {isLooking.value || known === null ? `${done} of ${counted(shown.length, 'question')} answered` : tell(known)}
      </p>
      {known !== null && !isLooking.value && <Sharing facts={known} />}
      {done > 0 && !isLooking.value && <Exports />}
    </div>
  )
}

function tell(known: LookFacts): string {
  const { usage, answers, failed, milliseconds } = known
  const sharing = sharingOf(known)
  const read =
    sharing?.context != null
      ? `Context read once: ${counted(sharing.context, 'token')}`
      : counted(usage?.prompt_tokens ?? 0, 'prompt token')
  const parts = [read, counted(answers, 'answer'), millisecondsText(milliseconds)]
  return (failed === 0 ? parts : [...parts, `${failed} failed`]).join(' · ')
}

/** Prompt tokens that were computed, beside those of as many separate calls. */
function Sharing({ facts: known }: { readonly facts: LookFacts }) {
  const sharing = sharingOf(known)
  if (sharing === null) return null
  const { all, computed } = sharing
  return (
    <div class="look-sharing">
      <div class="look-bar" aria-hidden="true">
        <span style={{ width: `${(computed / all) * 100}%` }} />
      </div>
      <p>
        Asked one by one: {counted(all, 'prompt token')}. Here {countText(computed)} were computed,{' '}
        {(all / computed).toFixed(1)} times fewer.
      </p>
    </div>
  )
}

function Exports() {
  const answered = () =>
    questions.value.flatMap(({ id }): AnsweredQuestion[] => {
      const row = rows.value.get(id)
      if (row === undefined) return []
      const isDone = row.status.value === 'done'
      const error = isDone ? null : (row.failure.value?.message ?? 'Not answered')
      return [{ question: row.question, answers: row.answers.value, error }]
    })
  const save = (text: string, type: string, ending: string) =>
    download(new Blob([text], { type }), `multilook.${ending}`)
  return (
    <div class="look-exports">
      <Button icon="download" title="Save as CSV" onClick={() => save(toCsv(answered()), 'text/csv', 'csv')}>
        CSV
      </Button>
      <Button
        icon="download"
        title="Save as JSON"
        onClick={() =>
          save(toJson(answered(), model.value?.id ?? '', facts.value?.usage ?? null), 'application/json', 'json')
        }
      >
        JSON
      </Button>
      <CopyButton text={() => toText(answered())} title="Copy questions and answers" />
    </div>
  )
}
