import { colourOf } from '../marks/colours.ts'
import type { Attachment } from '../media/attachment.ts'
import { Button, IconButton } from '../widgets/button.tsx'
import { counted, millisecondsText } from '../widgets/quantities.ts'
import { canRedo, canUndo, countEdits, type Result, redo, restoreFound, undo } from './results.ts'
import { addedKind, drawing, hiddenLabels, toggleDrawing } from './stage.ts'

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
          <Button kind="quiet" title="Take back all edits on this picture" onClick={() => restoreFound(picture.id)}>
            {counted(edits, 'edit')}: restore
          </Button>
        )}
        <IconButton icon="undo" label="Undo (Ctrl+Z)" disabled={!canUndo.value} onClick={undo} />
        <IconButton icon="redo" label="Redo (Ctrl+Shift+Z)" disabled={!canRedo.value} onClick={redo} />
        <IconButton
          icon="plus"
          label={kind === 'box' ? 'Draw a box' : 'Set a point'}
          pressed={drawing.value === 'box' || drawing.value === 'point'}
          onClick={() => toggleDrawing(kind)}
        />
      </div>
      {result?.isCut && <p class="empty">The answer was cut off, so objects may be missing.</p>}
      {result && result.spots.length > 0 && <Counts result={result} />}
    </div>
  )
}

function factsOf({ spots, milliseconds }: Result): string {
  const count = spots.length === 0 ? 'Nothing' : String(spots.length)
  return milliseconds === null ? `${count} drawn` : `${count} found · ${millisecondsText(milliseconds)}`
}

/** How many of each label; a click hides them. */
function Counts({ result }: { readonly result: Result }) {
  const counts = new Map<string, number>()
  for (const label of result.asked) counts.set(label, 0)
  for (const { label } of result.spots) counts.set(label, (counts.get(label) ?? 0) + 1)
  return (
    <ul class="counts" aria-label="Counts">
      {[...counts].map(([label, count]) => (
        <li key={label}>
          <button
            type="button"
            class="chip"
            style={{ '--mark': colourOf(label).fill }}
            aria-pressed={!hiddenLabels.value.has(label)}
            title={hiddenLabels.value.has(label) ? 'Show them' : 'Hide them'}
            onClick={() => {
              const next = new Set(hiddenLabels.value)
              if (!next.delete(label)) next.add(label)
              hiddenLabels.value = next
            }}
          >
            <span class="chip-dot" />
            {label}
            <span class="count">{count}</span>
          </button>
        </li>
      ))}
    </ul>
  )
}
