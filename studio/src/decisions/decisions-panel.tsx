import { useSignal } from '@preact/signals'
import { attachments } from '../media/attachments.ts'
import { bringSample, SAMPLES } from '../media/samples.ts'
import { QuestionList } from '../questions/question-list.tsx'
import { SettingsButton } from '../widgets/ask-buttons.tsx'
import { Button } from '../widgets/button.tsx'
import { TextAreaField } from '../widgets/fields/field.tsx'
import { FailureNotice } from '../widgets/notices/failure-notice.tsx'
import { WaitNotice } from '../widgets/notices/wait-notice.tsx'
import { asked, context, decideAll, failure, forgetAnswer, isDeciding, stopDeciding, wait } from './decide.ts'
import { DecisionRow } from './decision-row.tsx'
import { DecisionSummary } from './decision-summary.tsx'
import { EXAMPLE_QUESTIONS } from './example-questions.ts'
import { QuestionTools } from './question-tools.tsx'
import { questions, replaceQuestions } from './questions.ts'

/** Typed questions about the media on the stage, whose answers are probabilities. */
export function DecisionsPanel() {
  return (
    <>
      <div class="panel-body multilook decisions">
        {asked.value.length === 0 && (
          <div class="look-intro">
            <p class="empty">
              Each question has a type. Its answer comes from the probabilities of the model: how likely each option is,
              or where something is. The model reads the picture once for all questions.
            </p>
            <Button onClick={() => void tryExamples()}>
              Try {EXAMPLE_QUESTIONS.length} questions about six shapes
            </Button>
          </div>
        )}
        <QuestionList
          store={questions}
          onRemove={forgetAnswer}
          row={(question, place) => <DecisionRow key={question.id} question={question} place={place} />}
        />
        <QuestionTools />
      </div>
      <div class="panel-foot multilook-foot">
        <DecisionSummary />
        {wait.value !== null ? (
          <WaitNotice wait={wait.value} onCancel={stopDeciding} />
        ) : (
          failure.value !== null && <FailureNotice failure={failure.value} onRetry={() => void decideAll()} />
        )}
        <AskForm />
      </div>
    </>
  )
}

/** Asks at once: the answers are what is to be seen. */
async function tryExamples(): Promise<void> {
  replaceQuestions(EXAMPLE_QUESTIONS)
  const sample = SAMPLES.find(({ name }) => name === 'shapes.png')
  const isThere = attachments.value.length > 0 || (sample !== undefined && (await bringSample(sample)))
  if (isThere) await decideAll()
}

function AskForm() {
  const showsSettings = useSignal(false)
  const count = asked.value.length
  return (
    <form
      class="composer"
      onSubmit={(event) => {
        event.preventDefault()
        void decideAll()
      }}
    >
      {showsSettings.value && (
        <div class="settings">
          <TextAreaField
            label="Text that all questions share"
            value={context.value}
            placeholder="A document or instructions"
            onInput={(value) => {
              context.value = value
            }}
          />
        </div>
      )}
      <div class="composer-options">
        {isDeciding.value ? (
          <Button icon="stop" onClick={stopDeciding}>
            Stop
          </Button>
        ) : (
          <Button kind="primary" type="submit" icon="decide" title="Ask all (Ctrl+Enter)" disabled={count === 0}>
            {count < 2 ? 'Ask' : `Ask ${count} questions`}
          </Button>
        )}
        <SettingsButton shows={showsSettings} />
      </div>
    </form>
  )
}
