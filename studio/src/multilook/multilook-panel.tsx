import { useSignal } from '@preact/signals'
import { attachments } from '../media/attachments.ts'
import { bringSample, SAMPLES } from '../media/samples.ts'
import { QuestionList } from '../questions/question-list.tsx'
import { SettingsButton, ThinkButton } from '../widgets/ask-buttons.tsx'
import { Button } from '../widgets/button.tsx'
import { FormatChoice } from '../widgets/fields/format-choice.tsx'
import { FailureNotice } from '../widgets/notices/failure-notice.tsx'
import { Notice } from '../widgets/notices/notice.tsx'
import { WaitNotice } from '../widgets/notices/wait-notice.tsx'
import { counted } from '../widgets/quantities.ts'
import { EXAMPLE_QUESTIONS } from './example-questions.ts'
import {
  asked,
  failure,
  forgetRow,
  isLooking,
  lookAgain,
  lookAll,
  picked,
  retry,
  stopLooking,
  unanswered,
  wait,
} from './look.ts'
import { lookOptions, MOST_ANSWERS, MOST_COMPLETIONS, withCompletions } from './look-options.ts'
import { LookSettings } from './look-settings.tsx'
import { LookSummary } from './look-summary.tsx'
import { QuestionRow } from './question-row.tsx'
import { questions } from './questions.ts'

/** Many questions about the media on the stage, which the server reads once. */
export function MultilookPanel() {
  const count = questions.all.value.length
  return (
    <>
      <div class="panel-body multilook">
        {asked.value.length === 0 && (
          <div class="look-intro">
            <p class="empty">
              Write up to {questions.most} questions, or paste a list. The picture is read once for all of them, and
              each answer arrives in its row.
            </p>
            <Button onClick={() => void tryExamples()}>
              Try {EXAMPLE_QUESTIONS.length} questions about six shapes
            </Button>
          </div>
        )}
        <QuestionList
          store={questions}
          onRemove={forgetRow}
          row={(question, place) => <QuestionRow key={question.id} question={question} place={place} />}
        />
        <div class="look-add">
          <Button icon="plus" kind="quiet" disabled={count >= questions.most} onClick={() => questions.add()}>
            Add a question
          </Button>
          <span>
            {count} of {questions.most}
          </span>
          {picked.value !== null && (
            <Button kind="quiet" onClick={() => (picked.value = null)}>
              Show all marks
            </Button>
          )}
        </div>
      </div>
      <div class="panel-foot multilook-foot">
        <LookSummary />
        <Troubles />
        <LookForm />
      </div>
    </>
  )
}

/** Asks at once: the answers are what is to be seen. */
async function tryExamples(): Promise<void> {
  questions.replace(EXAMPLE_QUESTIONS)
  const sample = SAMPLES.find(({ name }) => name === 'shapes.png')
  const isThere = attachments.value.length > 0 || (sample !== undefined && (await bringSample(sample)))
  if (isThere) await lookAll()
}

/** Why the call has no answers, or not yet. */
function Troubles() {
  if (wait.value !== null) return <WaitNotice wait={wait.value} onCancel={stopLooking} />
  if (failure.value !== null) return <FailureNotice failure={failure.value} onRetry={() => void retry()} />
  const open = unanswered.value
  // One has a button of its own in its row.
  if (isLooking.value || open.length < 2) return null
  return (
    <Notice actions={<Button onClick={() => void lookAgain(open)}>Ask them again</Button>}>
      {open.length} questions have no answer.
    </Notice>
  )
}

function LookForm() {
  const showsSettings = useSignal(false)
  const options = lookOptions.value
  const { n, temperature } = options
  const questionCount = asked.value.length
  const answers = questionCount * n
  const tooMany = answers > MOST_ANSWERS
  const needsTemperature = n > 1 && !temperature
  return (
    <form
      class="composer"
      onSubmit={(event) => {
        event.preventDefault()
        if (!isLooking.value) void lookAll()
      }}
    >
      {showsSettings.value && <LookSettings />}
      {n > 1 && !tooMany && (
        <p class="look-note">
          {needsTemperature
            ? 'Several answers to a question need a temperature above 0.'
            : `Temperature ${temperature}: without it, ${n === 2 ? 'both' : `all ${n}`} answers would be the same.`}
          {needsTemperature && (
            <Button kind="quiet" onClick={() => (lookOptions.value = withCompletions(options, n))}>
              Set it
            </Button>
          )}
        </p>
      )}
      {tooMany && (
        <p class="look-note error" role="alert">
          {counted(questionCount, 'question')} with {n} answers each are {answers} answers; {MOST_ANSWERS} are the most.
        </p>
      )}
      <div class="composer-options">
        {isLooking.value ? (
          <Button icon="stop" onClick={stopLooking}>
            Stop
          </Button>
        ) : (
          <Button
            kind="primary"
            type="submit"
            icon="look"
            title="Ask all (Ctrl+Enter)"
            disabled={questionCount === 0 || tooMany || needsTemperature}
          >
            {questionCount < 2 ? 'Ask' : `Ask ${questionCount} questions`}
          </Button>
        )}
        <label class="look-n">
          <select
            aria-label="Answers to each question"
            value={String(n)}
            onChange={(event) => (lookOptions.value = withCompletions(options, Number(event.currentTarget.value)))}
          >
            {Array.from({ length: MOST_COMPLETIONS }, (_, i) => (
              <option key={i} value={String(i + 1)}>
                {i === 0 ? '1 answer each' : `${i + 1} answers each`}
              </option>
            ))}
          </select>
        </label>
        <FormatChoice value={options.format} onChoose={(format) => (lookOptions.value = { ...options, format })} />
        <ThinkButton
          thinks={options.thinks}
          onChange={(thinks) => {
            lookOptions.value = { ...options, thinks }
          }}
        />
        <SettingsButton shows={showsSettings} />
      </div>
    </form>
  )
}
