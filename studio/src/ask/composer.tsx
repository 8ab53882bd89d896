import { useSignal } from '@preact/signals'
import { attachments } from '../media/attachments.ts'
import { SAMPLES } from '../media/samples.ts'
import { sendsSound } from '../media/soundtrack.ts'
import { AskButton, SettingsButton, ThinkButton } from '../widgets/ask-buttons.tsx'
import { Button } from '../widgets/button.tsx'
import { FormatChoice } from '../widgets/fields/format-choice.tsx'
import { QuestionField } from '../widgets/fields/question-field.tsx'
import { counted } from '../widgets/quantities.ts'
import { AskSettings } from './ask-settings.tsx'
import { ask, draft, options, startOver, turns } from './conversation.ts'
import { inputCost } from './input-cost.ts'

/** Where the next question is written. */
export function Composer() {
  const showsSettings = useSignal(false)
  const last = turns.value.at(-1)?.reply
  const isBusy = last?.isBusy.value ?? false
  const submit = () => {
    if (!isBusy) void ask()
  }
  return (
    <form
      class="composer"
      onSubmit={(event) => {
        event.preventDefault()
        submit()
      }}
    >
      {showsSettings.value && <AskSettings />}
      <div class="composer-row">
        <QuestionField text={draft} placeholder="Ask about what is on the stage" onSubmit={submit} />
        <AskButton isBusy={isBusy} disabled={draft.value.trim() === ''} onStop={() => last?.stop()} />
      </div>
      <div class="composer-options">
        <FormatChoice
          value={options.value.format}
          onChoose={(format) => {
            options.value = { ...options.value, format }
          }}
        />
        <ThinkButton
          thinks={options.value.thinks}
          onChange={(thinks) => {
            options.value = { ...options.value, thinks }
          }}
        />
        <SettingsButton shows={showsSettings} />
        {turns.value.length > 0 && (
          <Button kind="quiet" onClick={() => void startOver()}>
            Start over
          </Button>
        )}
        <Cost />
      </div>
    </form>
  )
}

/** What the question would take of the context. */
function Cost() {
  const cost = inputCost.value
  if (cost === null) return null
  return (
    <span class="cost" title="What the model would read: the conversation, its media and this question">
      {cost.isEstimate ? '≈ ' : ''}
      {counted(cost.tokens, 'token')}
    </span>
  )
}

/** Questions to begin with. */
export function Suggestions() {
  const sample = SAMPLES.find(({ path }) => attachments.value.some((one) => one.path === path))
  if (sample === undefined || turns.value.length > 0) return null
  return (
    <div class="suggestions">
      {sample.questions.map(({ question, format, sound = false }) => (
        <Button
          key={question}
          onClick={() => {
            options.value = { ...options.value, format: format ?? '' }
            sendsSound.value = sound
            draft.value = question
            void ask()
          }}
        >
          {question}
        </Button>
      ))}
    </div>
  )
}
