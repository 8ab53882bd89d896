import type { Signal } from '@preact/signals'
import { Button } from '../button.tsx'
import { Notice } from './notice.tsx'

/** A change, and how it is undone. */
export interface UndoStep {
  /** What was done, as a sentence. */
  readonly said: string
  undo(): unknown
}

/** Says what changed last, and undoes it. */
export function UndoNotice({ steps }: { readonly steps: Signal<readonly UndoStep[]> }) {
  const last = steps.value.at(-1)
  if (last === undefined) return null
  const undo = () => {
    steps.value = steps.value.slice(0, -1)
    void last.undo()
  }
  return (
    <Notice
      actions={
        <Button icon="undo" onClick={undo}>
          Undo
        </Button>
      }
    >
      {last.said}
    </Notice>
  )
}
