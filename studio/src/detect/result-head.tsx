import type { Attachment } from '../media/attachment.ts'
import { Button, IconButton } from '../widgets/button.tsx'
import { counted, millisecondsText } from '../widgets/quantities.ts'
import { ClassList } from './labelling/class-list.tsx'
import { canRedo, canUndo, countEdits, type Result, redo, restoreFound, results, undo } from './results.ts'
import { addedKind, drawing, nameNew, toggleDrawing } from './stage.ts'
import { SurenessSection } from './sureness-section.tsx'

/** How much there is of what, and the tools to correct it. */
export function ResultHead({ picture, result }: { readonly picture: Attachment; readonly result: Result | undefined }) {
  const kind = addedKind.value
  const edits = result ? countEdits(result) : 0
  return (
    <div class="result-head">
      <div class="result-tools">
        <p role="status" class={result ? '' : 'empty'}>
          {result ? factsOf(result) : 'Not searched yet.'}
        </p>
        {edits > 0 && (
          <Button kind="quiet" title="Undo all edits on this picture" onClick={() => restoreFound(picture.id)}>
            {counted(edits, 'edit')}: restore
          </Button>
        )}
        <IconButton icon="undo" label="Undo (Ctrl+Z)" disabled={!canUndo.value} onClick={undo} />
        <IconButton icon="redo" label="Redo (Ctrl+Shift+Z)" disabled={!canRedo.value} onClick={redo} />
        <IconButton
          icon="plus"
          label={kind === 'box' ? 'Draw a box (W)' : 'Set a point (W)'}
          pressed={drawing.value === 'box' || drawing.value === 'point'}
          onClick={() => {
            toggleDrawing(kind)
            nameNew.value = true
          }}
        />
      </div>
      {result?.isCut && <p class="empty">The answer was cut off, so objects may be missing.</p>}
      {results.value.size > 0 && <ClassList result={result} />}
      {result && <SurenessSection result={result} />}
    </div>
  )
}

function factsOf({ spots, milliseconds }: Result): string {
  const count = spots.length === 0 ? 'Nothing' : String(spots.length)
  return milliseconds === null ? `${count} drawn` : `${count} found · ${millisecondsText(milliseconds)}`
}
