import type { Edges } from '../../../src/watches/watch-region.ts'
import { Button } from '../widgets/button.tsx'
import { NumberField } from '../widgets/fields/field.tsx'
import { shareText } from '../widgets/quantities.ts'
import { draft, isRegion, leaveRegion, saveRegion, WHOLE } from './region.ts'
import type { Watch } from './wire.ts'

const SIDES: readonly { readonly side: keyof Edges; readonly label: string }[] = [
  { side: 'left', label: 'Left, %' },
  { side: 'top', label: 'Top, %' },
  { side: 'right', label: 'Right, %' },
  { side: 'bottom', label: 'Bottom, %' },
]

/** Which part of the frame the watch looks at, and how that is changed. */
export function RegionFields({ watch }: { readonly watch: Watch }) {
  const { region } = watch
  const drawn = draft.value
  if (drawn === null) {
    return (
      <div class="watch-actions">
        <Button
          icon="detect"
          onClick={() => {
            draft.value = region ?? WHOLE
          }}
        >
          {region === null ? 'Choose a region' : 'Change the region'}
        </Button>
        {region !== null && (
          <span class="small-fact">
            Looks at {shareText(region.right - region.left)} × {shareText(region.bottom - region.top)} of the frame
          </span>
        )}
      </div>
    )
  }
  return (
    <fieldset class="watch-region-fields">
      <legend>Region</legend>
      <p class="small-fact">
        Draw a rectangle on the frame, or give its sides. The watch looks at nothing else, and what moves outside causes
        no look.
      </p>
      <div class="field-row">
        {SIDES.map(({ side, label }) => (
          <NumberField
            key={side}
            label={label}
            value={Math.round(drawn[side] * 1000) / 10}
            min={0}
            max={100}
            step={1}
            onInput={(value) => {
              if (value !== null) draft.value = { ...drawn, [side]: Math.min(1, Math.max(0, value / 100)) }
            }}
          />
        ))}
      </div>
      <div class="watch-actions">
        <Button kind="primary" disabled={!isRegion(drawn)} onClick={() => void saveRegion(watch, drawn)}>
          Look only there
        </Button>
        {region !== null && <Button onClick={() => void saveRegion(watch, null)}>Look at the whole frame</Button>}
        <Button onClick={leaveRegion}>Cancel</Button>
      </div>
    </fieldset>
  )
}
