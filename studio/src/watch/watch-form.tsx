import { useEffect, useRef } from 'preact/hooks'
import { QuestionLine } from '../questions/question-line.tsx'
import { QuestionList, type RowPlace } from '../questions/question-list.tsx'
import { Button } from '../widgets/button.tsx'
import { LineField, NumberField } from '../widgets/fields/field.tsx'
import { FailureNotice } from '../widgets/notices/failure-notice.tsx'
import { WaitNotice } from '../widgets/notices/wait-notice.tsx'
import {
  asked,
  create,
  createExample,
  type DraftQuestion,
  failure,
  failureOfForm,
  faultAt,
  fps,
  isCreating,
  name,
  questions,
  type Rule,
  stopCreating,
  wait,
} from './draft.ts'
import { nextSource } from './source/source.ts'
import { SourceFields } from './source/source-fields.tsx'
import { isMaking, watches } from './watches.ts'

/** Where a watch is made: its name, its questions, and when their events start and end. */
export function WatchForm() {
  const form = useRef<HTMLFormElement>(null)
  const failed = failureOfForm.value
  const wrong = failure.value
  useEffect(() => {
    const field = wrong === null ? null : form.current!.querySelector<HTMLElement>('[aria-invalid]')
    const details = field?.closest('details')
    if (details) details.open = true
    field?.focus()
  }, [wrong])
  return (
    <form
      ref={form}
      class="watch-form"
      aria-labelledby="new-watch"
      // The server says what is wrong, at the field.
      noValidate
      onSubmit={(event) => {
        event.preventDefault()
        void create()
      }}
    >
      <div class="watch-head">
        <h2 id="new-watch">New watch</h2>
        <Button icon="play" disabled={isCreating.value} onClick={() => void tryExample()}>
          Try it with a sample
        </Button>
      </div>
      <p class="empty">
        A watch has standing questions. It looks at the frames of a camera or a video, and tells you when something
        begins and when it ends.
      </p>
      <h3>Questions with the answer yes or no</h3>
      <QuestionList
        store={questions}
        row={(question, place) => <QuestionRow key={question.id} question={question} place={place} />}
      />
      <Button
        icon="plus"
        kind="quiet"
        disabled={questions.all.value.length >= questions.most}
        onClick={() => questions.add()}
      >
        Add a question
      </Button>
      <div class="watch-row">
        <LineField
          label="Name"
          value={name.value}
          placeholder="Loading dock"
          fault={faultAt('name')}
          onInput={(value) => {
            name.value = value
          }}
        />
        <NumberField
          label="Looks per second, at most"
          value={fps.value}
          min={0.05}
          max={10}
          step={0.5}
          placeholder="1"
          fault={faultAt('fps')}
          onInput={(value) => {
            fps.value = value
          }}
        />
      </div>
      <SourceFields />
      {wait.value !== null ? (
        <WaitNotice wait={wait.value} onCancel={stopCreating} />
      ) : (
        failed && <FailureNotice failure={failed} onRetry={() => void create()} />
      )}
      <div class="watch-actions">
        <Button kind="primary" type="submit" disabled={isCreating.value || asked.value.length === 0}>
          Create the watch
        </Button>
        {watches.value !== null && watches.value.length > 0 && (
          <Button
            onClick={() => {
              isMaking.value = false
            }}
          >
            Cancel
          </Button>
        )}
      </div>
    </form>
  )
}

/** Registers a watch of the sample, and begins to show it. */
async function tryExample(): Promise<void> {
  if (await createExample()) nextSource.value = 'sample'
}

/** A question with what is to be found, and its thresholds. */
function QuestionRow({ question, place }: { readonly question: DraftQuestion; readonly place: RowPlace }) {
  const { id, text, find, rule } = question
  const fault = faultAt('text', id)
  const ruleFaults = {
    above: faultAt('above', id),
    below: faultAt('below', id),
    for_seconds: faultAt('for_seconds', id),
    clear_seconds: faultAt('clear_seconds', id),
  }
  return (
    <li class={`question-row ${place.isDragged ? 'dragged' : ''}`} data-question={id}>
      <QuestionLine
        text={text}
        place={place}
        placeholder="Is there a red circle?"
        isAtFault={fault !== null}
        onInput={(value) => questions.change(id, { text: value })}
        onAskAll={() => void create()}
      />
      <div class="answers-box watch-question-fields">
        {fault !== null && (
          <p class="field-fault" role="alert">
            {fault}
          </p>
        )}
        <LineField
          label="Box around (optional)"
          value={find}
          placeholder="such as: red circle"
          fault={faultAt('find', id)}
          onInput={(value) => questions.change(id, { find: value })}
        />
        <details>
          <summary>{ruleText(rule)}</summary>
          <div class="field-row">
            {RULES.map(({ field, label, most, step }) => (
              <NumberField
                key={field}
                label={label}
                value={rule[field]}
                min={0}
                max={most}
                step={step}
                placeholder="default"
                fault={ruleFaults[field]}
                onInput={(value) => questions.change(id, { rule: { ...rule, [field]: value } })}
              />
            ))}
          </div>
        </details>
      </div>
    </li>
  )
}

const RULES: readonly {
  readonly field: keyof Rule
  readonly label: string
  readonly most: number
  readonly step: number
}[] = [
  { field: 'above', label: 'Starts at', most: 1, step: 0.05 },
  { field: 'for_seconds', label: 'Seconds to start', most: 3600, step: 0.5 },
  { field: 'below', label: 'Ends below', most: 1, step: 0.05 },
  { field: 'clear_seconds', label: 'Seconds to end', most: 3600, step: 0.5 },
]

function ruleText({ above, below, for_seconds, clear_seconds }: Rule): string {
  const one = (value: number | null, unit = '') => (value === null ? 'the default' : `${value}${unit}`)
  return `Starts at ${one(above)} for ${one(for_seconds, ' s')}, ends below ${one(below)} for ${one(clear_seconds, ' s')}`
}
