import { factsText } from '../multilook/look-facts.ts'
import { Sharing } from '../multilook/sharing.tsx'
import { Button } from '../widgets/button.tsx'
import { CopyButton } from '../widgets/copy-button.tsx'
import { download } from '../widgets/download.ts'
import { toCsv, toJson, toText } from './answer-export.ts'
import { decided, facts, isDeciding } from './decide.ts'
import { questions } from './questions.ts'

/** What the questions took and saved, and ways to take the answers along. */
export function DecisionSummary() {
  const known = facts.value
  if (known === null) return null
  return (
    <div class="look-summary">
      <p class="look-facts" role="status">
        {isDeciding.value ? 'Asking…' : factsText(known, 'question')}
      </p>
      {!isDeciding.value && <Sharing facts={known} />}
      <Exports />
    </div>
  )
}

function Exports() {
  const answered = () => questions.all.value.flatMap(({ id }) => decided.value.get(id) ?? [])
  const save = (text: string, type: string, ending: string) =>
    download(new Blob([text], { type }), `decisions.${ending}`)
  return (
    <div class="look-exports">
      <Button icon="download" title="Save as CSV" onClick={() => save(toCsv(answered()), 'text/csv', 'csv')}>
        CSV
      </Button>
      <Button icon="download" title="Save as JSON" onClick={() => save(toJson(answered()), 'application/json', 'json')}>
        JSON
      </Button>
      <CopyButton text={() => toText(answered())} title="Copy questions and answers" />
    </div>
  )
}
