import { useComputed, useSignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { QuestionLine } from '../questions/question-line.tsx'
import type { RowPlace } from '../questions/question-list.tsx'
import { TokenInput, tokensOf } from '../widgets/fields/token-input.tsx'
import { decideAll, decided, fault, isDeciding, type QuestionFault } from './decide.ts'
import { DecisionAnswer } from './decision-answer.tsx'
import { areSame, MOST_COUNTED, QUESTION_TYPES, type QuestionType, questions, type TypedQuestion } from './questions.ts'

interface DecisionRowProps {
  readonly question: TypedQuestion
  readonly place: RowPlace
}

/** A question of a type, to write, with its answer. */
export function DecisionRow({ question, place }: DecisionRowProps) {
  const { id, text, type } = question
  const own = useRef<HTMLLIElement>(null)
  const known = useComputed(() => decided.value.get(id)).value
  const wrong = fault.value?.question === question ? fault.value : null
  useEffect(() => {
    if (wrong === null) return
    own.current!.scrollIntoView({ block: 'nearest' })
    own.current!.querySelector<HTMLElement>('[aria-invalid]')?.focus({ preventScroll: true })
  }, [wrong])
  const { placeholder } = QUESTION_TYPES.find((one) => one.type === type)!
  const isStale = known !== undefined && !areSame(known.question, question)
  return (
    <li ref={own} class={`question-row ${place.isDragged ? 'dragged' : ''}`} data-question={id}>
      <QuestionLine
        text={text}
        place={place}
        placeholder={placeholder}
        isAtFault={wrong !== null && fieldOf(wrong) === 'text'}
        onInput={(value) => questions.change(id, { text: value })}
        onAskAll={() => void decideAll()}
      >
        <select
          class="decision-type"
          aria-label={`Type of question ${place.index + 1}`}
          value={type}
          onChange={({ currentTarget: { value } }) => questions.change(id, { type: value as QuestionType })}
        >
          {QUESTION_TYPES.map((one) => (
            <option key={one.type} value={one.type}>
              {one.title}
            </option>
          ))}
        </select>
      </QuestionLine>
      <div class="answers-box" aria-busy={isDeciding.value}>
        {(type === 'choice' || type === 'score') && <Options question={question} wrong={wrong} />}
        {type === 'x_count' && <Most question={question} wrong={wrong} />}
        {wrong && (
          <p class="row-failure" role="alert">
            {wrong.message} <code>{wrong.param}</code>
          </p>
        )}
        {known && (
          <div class={`decision-answer ${isStale ? 'stale' : ''}`}>
            <DecisionAnswer id={id} decided={known} />
          </div>
        )}
        {isStale && <p class="decision-note">Changed since it was asked.</p>}
      </div>
    </li>
  )
}

interface FieldProps {
  readonly question: TypedQuestion
  readonly wrong: QuestionFault | null
}

/** The choices, or the levels. What is typed becomes one when the field is left. */
function Options({ question: { id, type, options }, wrong }: FieldProps) {
  const draft = useSignal('')
  const isScore = type === 'score'
  const take = (text: string) => {
    draft.value = ''
    const added = tokensOf(text)
    if (added.length > 0) questions.change(id, { options: [...options, ...added] })
  }
  return (
    <div class="decision-options" onFocusOut={() => take(draft.value)}>
      <TokenInput
        id={`options-${id}`}
        label={isScore ? 'Levels, lowest first' : 'Choices'}
        listLabel={isScore ? 'Levels' : 'Choices'}
        tokens={options}
        draft={draft.value}
        placeholder={options.length > 0 ? 'and…' : isScore ? 'small, medium, large: lowest first' : 'red, green, blue'}
        faultAt={wrong && fieldOf(wrong) === 'options' ? Number(/\[(\d+)\]/.exec(pathOf(wrong))?.[1] ?? -1) : null}
        onDraft={(text) => {
          draft.value = text
        }}
        onTake={take}
        onRemove={(index) => questions.change(id, { options: options.toSpliced(index, 1) })}
      />
    </div>
  )
}

/** The largest number that is an answer. */
function Most({ question: { id, max }, wrong }: FieldProps) {
  return (
    <label class="decision-most">
      0 to
      <input
        type="number"
        aria-label="The largest number"
        min={1}
        max={MOST_COUNTED}
        step={1}
        placeholder="20"
        value={max ?? ''}
        aria-invalid={(wrong !== null && fieldOf(wrong) === 'max') || undefined}
        onInput={({ currentTarget: { valueAsNumber: given } }) =>
          questions.change(id, { max: Number.isNaN(given) ? null : given })
        }
      />
    </label>
  )
}

/** Within the question: `.choices[1].value`. */
function pathOf({ param }: QuestionFault): string {
  return param.replace(/^questions\[\d+\]/, '')
}

function fieldOf(wrong: QuestionFault): 'text' | 'options' | 'max' {
  const path = pathOf(wrong)
  return /^\.(?:choices|levels)/.test(path) ? 'options' : path === '.max' ? 'max' : 'text'
}
