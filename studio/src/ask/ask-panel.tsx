import { useComputed } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { FormattedText } from '../chat/formatted-text.tsx'
import { ReplyView } from '../chat/reply-view.tsx'
import type { Failure } from '../server/failure.ts'
import { Button } from '../widgets/button.tsx'
import { useFollowEnd } from '../widgets/follow-end.ts'
import { useKept } from '../widgets/kept.ts'
import './ask-session.ts'
import { Composer, Suggestions } from './composer.tsx'
import { options, pickedTurn, send, sendAlone, shownTurn, startOver, type Turn, turns } from './conversation.ts'
import { watchInputCost } from './input-cost.ts'

/** A conversation about the media on the stage. */
export function AskPanel() {
  const end = useRef<HTMLDivElement>(null)
  const { frame, content } = useFollowEnd()
  const kept = useKept<Turn>()
  const count = turns.value.length
  useEffect(() => end.current?.scrollIntoView({ block: 'end' }), [count])
  useEffect(watchInputCost, [])
  useEffect(() => {
    const stop = (event: KeyboardEvent) => {
      // Within a dialog, Escape closes it.
      if (event.key === 'Escape' && document.querySelector('dialog[open]') === null) turns.value.at(-1)?.reply.stop()
    }
    addEventListener('keydown', stop)
    return () => removeEventListener('keydown', stop)
  }, [])
  return (
    <>
      <div ref={frame} class="turns" role="log" aria-label="Conversation" tabIndex={0}>
        <div ref={content} class="turns-list">
          {count === 0 && (
            <p class="empty">
              Ask a question. Where the answer names places, they appear on the picture while it arrives.
            </p>
          )}
          {turns.value.map((turn) => kept(turn.id, turn, () => <TurnView key={turn.id} turn={turn} />))}
          <div ref={end} />
        </div>
      </div>
      <div class="panel-foot">
        <Suggestions />
        {count > 0 && (
          <Button kind="quiet" onClick={startOver}>
            Start over
          </Button>
        )}
        <Composer />
      </div>
    </>
  )
}

/** The server has no code of its own for it. */
function isTooLong({ status, message }: Failure): boolean {
  return status === 400 && /exceeds? the context/.test(message)
}

function TurnView({ turn }: { readonly turn: Turn }) {
  const isShown = useComputed(() => shownTurn.value?.id === turn.id).value
  return (
    <article class={`turn ${isShown ? 'shown' : ''}`} onPointerDown={() => (pickedTurn.value = turn.id)}>
      <div class="question">
        {turn.question}
        {turn.media.length > 0 && <span class="question-media">{turn.media.map(({ name }) => name).join(', ')}</span>}
      </div>
      <ReplyView
        reply={turn.reply}
        onRetry={() => void send(turn)}
        waysOn={(failure) =>
          turns.value[0] !== turn &&
          options.value.remembers &&
          isTooLong(failure) && <Button onClick={() => void sendAlone(turn)}>Ask without the earlier turns</Button>
        }
      >
        <FormattedText pieces={turn.pieces.value} isOpen={turn.reply.isBusy.value} />
      </ReplyView>
    </article>
  )
}
