import { Button } from '../widgets/button.tsx'
import { CopyButton } from '../widgets/copy-button.tsx'
import { download } from '../widgets/download.ts'
import { counted } from '../widgets/quantities.ts'
import { type AnsweredQuestion, toCsv, toJson, toText } from './answer-export.ts'
import { facts, isLooking, rows } from './look.ts'
import { factsText } from './look-facts.ts'
import { questions } from './questions.ts'
import { Sharing } from './sharing.tsx'

/** What the questions took and saved, and ways to take the answers along. */
export function LookSummary() {
  const known = facts.value
  const shown = questions.all.value.flatMap(({ id }) => rows.value.get(id) ?? [])
  const done = shown.filter(({ status }) => status.value === 'done').length
  if (shown.length === 0) return null
  return (
    <div class="look-summary">
      <p class="look-facts" role="status">
        {isLooking.value || known === null
          ? `${done} of ${counted(shown.length, 'question')} answered`
          : factsText(known, 'answer')}
      </p>
      {known !== null && !isLooking.value && <Sharing facts={known} />}
      {done > 0 && !isLooking.value && <Exports />}
    </div>
  )
}

function Exports() {
  const answered = () =>
    questions.all.value.flatMap(({ id }): AnsweredQuestion[] => {
      const row = rows.value.get(id)
      if (row === undefined) return []
      const isDone = row.status.value === 'done'
      const error = isDone ? null : (row.failure.value?.message ?? 'Not answered')
      return [{ question: row.question, model: row.model, answers: row.answers.value, error }]
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
        onClick={() => save(toJson(answered(), facts.value?.usage ?? null), 'application/json', 'json')}
      >
        JSON
      </Button>
      <CopyButton text={() => toText(answered())} title="Copy questions and answers" />
    </div>
  )
}
