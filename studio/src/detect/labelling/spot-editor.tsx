import { useLayoutEffect, useRef } from 'preact/hooks'
import { chosenMark } from '../../marks/mark.ts'
import { Button } from '../../widgets/button.tsx'
import { changeSpot, removeSpot } from '../results.ts'
import { chosenSpot, knownLabels, lastLabel, newSpot } from '../stage.ts'
import type { Spot } from './spot.ts'

/** The chosen object: its name and its place, exactly. */
export function SpotEditor() {
  const chosen = chosenSpot.value
  if (chosen === null) return null
  const { spot, picture } = chosen
  const { id, kind, left, top, right, bottom } = spot
  const change = (values: Partial<Spot>) => changeSpot(picture.id, id, values)
  const box = kind === 'box'
  return (
    <section class="spot-editor" aria-label="Selected object" key={id}>
      <NameField spot={spot} media={picture.id} />
      <PixelField
        label={box ? 'Left' : 'x'}
        value={left}
        max={picture.width - (right - left)}
        onChange={(value) => change({ left: value, right: value + right - left })}
      />
      <PixelField
        label={box ? 'Top' : 'y'}
        value={top}
        max={picture.height - (bottom - top)}
        onChange={(value) => change({ top: value, bottom: value + bottom - top })}
      />
      {box && (
        <>
          <PixelField
            label="Width"
            value={right - left}
            min={1}
            max={picture.width - left}
            onChange={(value) => change({ right: left + value })}
          />
          <PixelField
            label="Height"
            value={bottom - top}
            min={1}
            max={picture.height - top}
            onChange={(value) => change({ bottom: top + value })}
          />
        </>
      )}
      <Button icon="trash" kind="quiet" title="Delete (Del)" onClick={() => deleteSpot(picture.id, id)}>
        Delete
      </Button>
    </section>
  )
}

function deleteSpot(media: string, id: string): void {
  removeSpot(media, id)
  chosenMark.value = null
}

function NameField({ spot: { id, label }, media }: { readonly spot: Spot; readonly media: string }) {
  const input = useRef<HTMLInputElement>(null)
  const isNew = newSpot.value === id
  // Before the next key arrives.
  useLayoutEffect(() => {
    if (!isNew) return
    newSpot.value = null
    input.current?.focus()
    input.current?.select()
  }, [isNew])
  return (
    <div class="field name-field">
      <label for="spot-label">Label</label>
      <input
        ref={input}
        id="spot-label"
        list="known-labels"
        autocomplete="off"
        value={label}
        onChange={({ currentTarget }) => {
          const name = currentTarget.value.trim()
          if (name === '') currentTarget.value = label
          else {
            changeSpot(media, id, { label: name })
            lastLabel.value = name
          }
        }}
      />
      <datalist id="known-labels">
        {knownLabels.value.map((name) => (
          <option key={name} value={name} />
        ))}
      </datalist>
    </div>
  )
}

interface PixelFieldProps {
  readonly label: string
  readonly value: number
  readonly min?: number
  readonly max: number
  onChange(value: number): void
}

/** A whole number of pixels, taken when the field is left or Enter is pressed: one step to undo. */
function PixelField({ label, value, min = 0, max, onChange }: PixelFieldProps) {
  const id = `spot-${label}`
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <input
        id={id}
        type="number"
        value={value}
        min={min}
        max={max}
        step={1}
        onChange={({ currentTarget }) => {
          const given = currentTarget.valueAsNumber
          if (Number.isFinite(given)) onChange(Math.min(max, Math.max(min, Math.round(given))))
          currentTarget.value = String(value)
        }}
      />
    </div>
  )
}
