import { FormattedText } from '../chat/formatted-text.tsx'
import type { ReplyPiece } from '../marks/reply-text.ts'
import { Button } from '../widgets/button.tsx'
import { failure as callFailure, isLooking, lookAgain, picked } from './look.ts'
import type { Answer, Row } from './row.ts'

interface AnswerListProps {
  readonly id: string
  readonly row: Row
  /** Whether the question was changed after it was asked. */
  readonly isChanged: boolean
}

/** The completions of a question side by side, or why there are none. */
export function AnswerList({ id, row, isChanged }: AnswerListProps) {
  const status = row.status.value
  const answers = row.answers.value
  const readings = row.readings.value
  const isRunning = status === 'waiting' || status === 'answering'
  const failure = row.failure.value
  // Where the whole call has failed, one button asks for all that is open.
  const isOpen = status === 'unanswered' && callFailure.value === null
  const isShown = status === 'answering' || status === 'done' || answers.some(({ text }) => text !== '')
  return (
    <div class="answers-box" aria-busy={isRunning}>
      {isShown && (
        <div class="answers" {...(answers.length > 1 ? SIDE_BY_SIDE : {})}>
          {answers.map((answer, index) => (
            <AnswerView
              key={index}
              answer={answer}
              pieces={readings[index] ?? []}
              isRunning={isRunning}
              {...(answers.length > 1 ? { pick: { question: id, answer: index } } : {})}
            />
          ))}
        </div>
      )}
      {failure && <p class="row-failure">{failure.message}</p>}
      {(failure || isOpen || (isChanged && !isRunning)) && (
        <div class="row-again">
          {isChanged && <span>Changed since it was asked.</span>}
          <Button disabled={isLooking.value} onClick={() => void lookAgain([id])}>
            {isChanged ? 'Ask it again' : 'Try again'}
          </Button>
        </div>
      )}
    </div>
  )
}

/** Annotations one behind the other: the model writes each on a line of its own, which a row has no room for. */
function flowing(pieces: readonly ReplyPiece[]): readonly ReplyPiece[] {
  return pieces.map((piece) => (piece.kind === 'prose' && piece.text.trim() === '' ? SPACE : piece))
}

const SPACE: ReplyPiece = { kind: 'prose', text: ' ' }

/** Answers that may have to be scrolled to, also by keyboard. */
const SIDE_BY_SIDE = { role: 'list', 'aria-label': 'Answers', tabIndex: 0 } as const

const ENDS: Readonly<Record<string, string>> = {
  length: 'cut at the token limit',
  interrupted: 'thinking cut at its budget',
}

interface AnswerViewProps {
  readonly answer: Answer
  readonly pieces: readonly ReplyPiece[]
  readonly isRunning: boolean
  /** What its number picks, where there are several. */
  readonly pick?: { readonly question: string; readonly answer: number }
}

function AnswerView({ answer, pieces, isRunning, pick }: AnswerViewProps) {
  const { text, thoughts, finishReason } = answer
  const isPicked = pick !== undefined && picked.value?.question === pick.question && picked.value.answer === pick.answer
  const hasMarks = pieces.some(({ kind }) => kind === 'annotation')
  const end = ENDS[finishReason ?? '']
  return (
    <div class={`answer ${isPicked ? 'picked' : ''}`} role={pick ? 'listitem' : undefined}>
      {pick && hasMarks && (
        <button
          type="button"
          class="answer-number"
          aria-pressed={isPicked}
          aria-label={`Show only the marks of answer ${pick.answer + 1}`}
          onClick={() => {
            picked.value = isPicked ? null : pick
          }}
        >
          {pick.answer + 1}
        </button>
      )}
      {pick && !hasMarks && <span class="answer-number">{pick.answer + 1}</span>}
      {thoughts !== '' && (
        <details class="thoughts">
          <summary>{text === '' && isRunning ? 'Thinking…' : 'Thoughts'}</summary>
          <p>{thoughts}</p>
        </details>
      )}
      <div class="reply-text">
        <FormattedText pieces={flowing(pieces)} isOpen={isRunning && finishReason === null} />
        {isRunning && finishReason === null && <span class="cursor" />}
        {!isRunning && text === '' && thoughts === '' && <span class="empty">No text</span>}
      </div>
      {end && <p class="reply-facts">{end}</p>}
    </div>
  )
}
