import { useEffect, useRef } from 'preact/hooks'
import { useFollowEnd } from '../widgets/follow-end.ts'
import { useKept } from '../widgets/kept.ts'
import { UndoNotice } from '../widgets/notices/undo-notice.tsx'
import './ask-session.ts'
import { Composer, Suggestions } from './composer.tsx'
import { type Turn, turns, undoSteps } from './conversation.ts'
import { watchInputCost } from './input-cost.ts'
import { TurnView } from './turn-view.tsx'

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
        <UndoNotice steps={undoSteps} />
        <Suggestions />
        <Composer />
      </div>
    </>
  )
}
