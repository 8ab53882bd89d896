import { QuestionLine } from '../questions/question-line.tsx'
import type { RowPlace } from '../questions/question-list.tsx'
import type { Question } from '../questions/question-store.ts'
import { IconButton } from '../widgets/button.tsx'
import { counted } from '../widgets/quantities.ts'
import { AnswerList } from './answer-list.tsx'
import { lookAll, picked, rows } from './look.ts'
import { questions } from './questions.ts'
import type { Row } from './row.ts'

/** A question, to write, with its answers. */
export function QuestionRow({
  question: { id, text },
  place,
}: {
  readonly question: Question
  readonly place: RowPlace
}) {
  const { index, isDragged } = place
  const row = rows.value.get(id)
  const isPicked = picked.value?.question === id
  return (
    <li class={`question-row ${isDragged ? 'dragged' : ''} ${isPicked ? 'picked' : ''}`} data-question={id}>
      <QuestionLine
        text={text}
        place={place}
        onInput={(value) => questions.change(id, { text: value })}
        onAskAll={() => void lookAll()}
      >
        {row && <RowStatusText row={row} />}
        {row && <PickButton id={id} index={index} row={row} />}
      </QuestionLine>
      {row && <AnswerList id={id} row={row} isChanged={row.question !== text.trim()} />}
    </li>
  )
}

function RowStatusText({ row }: { readonly row: Row }) {
  const status = row.status.value
  if (status === 'waiting') return <span class="row-status waiting">waiting</span>
  if (status === 'answering') return <span class="row-status">answering</span>
  if (status === 'done') {
    return <span class="row-status">{counted(row.tokens.value!, 'token')}</span>
  }
  return <span class="row-status">{status === 'failed' ? 'failed' : 'not answered'}</span>
}

/** Shows only this question's marks on the stage. */
function PickButton({ id, index, row }: { readonly id: string; readonly index: number; readonly row: Row }) {
  const hasMarks = row.readings.value.some((pieces) => pieces.some(({ kind }) => kind === 'annotation'))
  if (!hasMarks) return null
  const isPicked = picked.value?.question === id
  return (
    <IconButton
      icon="detect"
      label={`Show only the marks of question ${index + 1}`}
      pressed={isPicked}
      onClick={() => {
        picked.value = isPicked ? null : { question: id, answer: null }
      }}
    />
  )
}
