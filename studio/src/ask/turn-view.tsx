import { useComputed, useSignal } from '@preact/signals'
import { useLayoutEffect, useRef } from 'preact/hooks'
import { FormattedText } from '../chat/formatted-text.tsx'
import { ReplyView } from '../chat/reply-view.tsx'
import { Button, IconButton } from '../widgets/button.tsx'
import { CopyButton } from '../widgets/copy-button.tsx'
import { QuestionField } from '../widgets/fields/question-field.tsx'
import {
  askAgain,
  askChanged,
  options,
  pickedTurn,
  send,
  sendAlone,
  sendWithout,
  shownTurn,
  type Turn,
  turns,
} from './conversation.ts'

/** A question with its answer. */
export function TurnView({ turn }: { readonly turn: Turn }) {
  const isShown = useComputed(() => shownTurn.value?.id === turn.id).value
  const { reply } = turn
  return (
    <article class={`turn ${isShown ? 'shown' : ''}`} onPointerDown={() => (pickedTurn.value = turn.id)}>
      <Question turn={turn} />
      <ReplyView
        reply={reply}
        onRetry={(without) => void (without === undefined ? send(turn) : sendWithout(turn, without))}
        waysOn={(failure) =>
          turns.value[0] !== turn &&
          options.value.remembers &&
          failure.code === 'context_length_exceeded' && (
            <Button onClick={() => void sendAlone(turn)}>Ask without the earlier turns</Button>
          )
        }
        tools={
          <>
            {reply.text.value !== '' && (
              <CopyButton text={() => reply.text.value} title="Copy the answer as the model wrote it" />
            )}
            {reply.status.value === 'done' && (
              <Button icon="redo" title="Ask for another answer" onClick={() => void askAgain(turn)}>
                Ask again
              </Button>
            )}
          </>
        }
      >
        <FormattedText pieces={turn.pieces.value} isOpen={reply.isBusy.value} />
      </ReplyView>
    </article>
  )
}

function Question({ turn }: { readonly turn: Turn }) {
  const text = useSignal(turn.question)
  const isEdited = useSignal(false)
  const frame = useRef<HTMLFormElement & HTMLDivElement>(null)
  const isFirst = useRef(true)
  const edited = isEdited.value
  // Before the next key arrives: to the field, and back to the button after a cancel.
  useLayoutEffect(() => {
    if (!isFirst.current) frame.current?.querySelector<HTMLElement>('textarea, button')?.focus()
    isFirst.current = false
  }, [edited])
  if (!edited) {
    return (
      <div ref={frame} class="turn-question">
        <div class="question">
          {turn.question}
          {turn.media.length > 0 && <span class="question-media">{turn.media.map(({ name }) => name).join(', ')}</span>}
        </div>
        <IconButton
          icon="pencil"
          label="Change the question"
          onClick={() => {
            text.value = turn.question
            isEdited.value = true
          }}
        />
      </div>
    )
  }
  const submit = () => {
    if (text.value.trim() === '') return
    document.querySelector<HTMLElement>('[data-draft]')?.focus()
    void askChanged(turn, text.value.trim())
  }
  return (
    <form
      ref={frame}
      class="question-edit"
      onSubmit={(event) => {
        event.preventDefault()
        submit()
      }}
      onKeyDown={(event) => {
        if (event.key !== 'Escape') return
        // It closes nothing else.
        event.stopPropagation()
        isEdited.value = false
      }}
    >
      <QuestionField text={text} label="The question" onSubmit={submit} />
      <div class="question-tools">
        <Button type="submit" kind="primary" disabled={text.value.trim() === ''}>
          Ask
        </Button>
        <Button
          onClick={() => {
            isEdited.value = false
          }}
        >
          Cancel
        </Button>
      </div>
    </form>
  )
}
