import { useSignal } from '@preact/signals'
import { attachments } from '../media/attachments.ts'
import { bringSample, SAMPLES } from '../media/samples.ts'
import type { AnswerOptions } from '../server/answer-options.ts'
import { AskButton, SettingsButton, ThinkButton } from '../widgets/ask-buttons.tsx'
import { QuestionField } from '../widgets/fields/question-field.tsx'
import { SamplingFields } from '../widgets/fields/sampling-fields.tsx'
import { Segments } from '../widgets/fields/segments.tsx'
import { UndoNotice } from '../widgets/notices/undo-notice.tsx'
import { AnswerView } from './answer-view.tsx'
import { CodeEditor } from './code-editor.tsx'
import {
  asked,
  askStructured,
  fault,
  faultsToShow,
  kind,
  loadExample,
  options,
  question,
  setText,
  texts,
  undoSteps,
} from './structure.ts'
import { STRUCTURE_EXAMPLES } from './structure-examples.ts'

const KINDS = [
  { value: 'schema', title: 'JSON schema' },
  { value: 'regex', title: 'Regex' },
] as const

/** A form that the answer must have, with the answer beside it. */
export function StructurePanel() {
  const isSchema = kind.value === 'schema'
  return (
    <>
      <div class="panel-body structure">
        <div class="structure-columns">
          <div class="structure-form">
            <div class="structure-head">
              <Segments
                label="Form of the answer"
                value={kind.value}
                choices={KINDS}
                onChoose={(value) => {
                  kind.value = value
                }}
              />
              <ExampleChoice />
            </div>
            <CodeEditor
              key={kind.value}
              label={isSchema ? 'JSON schema' : 'Regular expression'}
              value={texts.value[kind.value]}
              fault={fault.value}
              faultsToShow={faultsToShow.value}
              hasLines={isSchema}
              onInput={setText}
              onSubmit={() => void askStructured()}
            />
          </div>
          <div class="structure-answer">
            {asked.value === null ? (
              <p class="empty">
                The model can write only what fits {isSchema ? 'the schema' : 'the expression'}, token by token. So the
                form of the answer always holds; whether its facts do is up to the model.
              </p>
            ) : (
              <AnswerView asked={asked.value} />
            )}
          </div>
        </div>
      </div>
      <div class="panel-foot">
        <UndoNotice steps={undoSteps} />
        <AskForm />
      </div>
    </>
  )
}

function ExampleChoice() {
  return (
    <select
      class="example-choice"
      aria-label="Load an example"
      value=""
      onChange={(event) => {
        const example = STRUCTURE_EXAMPLES[Number(event.currentTarget.value)]
        event.currentTarget.value = ''
        if (example === undefined) return
        loadExample(example)
        const sample = SAMPLES.find(({ name }) => name === 'shapes.png')
        if (sample && attachments.value.length === 0) void bringSample(sample)
      }}
    >
      <option value="">Examples</option>
      {STRUCTURE_EXAMPLES.map(({ title }, index) => (
        <option key={title} value={String(index)}>
          {title}
        </option>
      ))}
    </select>
  )
}

function AskForm() {
  const showsSettings = useSignal(false)
  const reply = asked.value?.reply
  const isBusy = reply?.isBusy.value ?? false
  const submit = () => {
    if (!isBusy) void askStructured()
  }
  return (
    <form
      class="composer"
      onSubmit={(event) => {
        event.preventDefault()
        submit()
      }}
    >
      {showsSettings.value && <Settings />}
      <div class="composer-row">
        <QuestionField text={question} placeholder="Describe what to extract" onSubmit={submit} />
        <AskButton
          isBusy={isBusy}
          disabled={question.value.trim() === '' || texts.value[kind.value].trim() === ''}
          onStop={() => reply?.stop()}
        />
      </div>
      <div class="composer-options">
        <ThinkButton
          thinks={options.value.thinks}
          onChange={(thinks) => {
            options.value = { ...options.value, thinks }
          }}
        />
        <SettingsButton shows={showsSettings} />
      </div>
    </form>
  )
}

function Settings() {
  const { temperature, maxTokens } = options.value
  const set = (change: Partial<AnswerOptions>) => {
    options.value = { ...options.value, ...change }
  }
  return (
    <div class="settings">
      <SamplingFields temperature={temperature} maxTokens={maxTokens} onChange={set} />
    </div>
  )
}
