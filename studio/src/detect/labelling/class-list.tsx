import { useLayoutEffect, useRef } from 'preact/hooks'
import { colourOf } from '../../marks/colours.ts'
import type { Result } from '../results.ts'
import { hiddenLabels, knownLabels } from '../stage.ts'
import { sureSpots } from '../sureness.ts'
import { classFilter, focusStage, foundClasses, giveClass } from './labelling.ts'

/** All classes, with their keys and how many of each there are on the picture; a click hides those. */
export function ClassList({ result }: { readonly result: Result | undefined }) {
  const counts = new Map<string, number>()
  for (const { label } of sureSpots(result)) counts.set(label, (counts.get(label) ?? 0) + 1)
  const isFinding = classFilter.value !== null
  return (
    <>
      {isFinding && <ClassField />}
      <ul class={`counts ${isFinding ? 'finding' : ''}`} aria-label="Classes">
        {foundClasses.value.map((label) => (
          <ClassChip key={label} label={label} count={counts.get(label) ?? 0} />
        ))}
      </ul>
    </>
  )
}

function ClassChip({ label, count }: { readonly label: string; readonly count: number }) {
  const index = knownLabels.value.indexOf(label)
  const key = index < 10 ? String((index + 1) % 10) : null
  const isHidden = hiddenLabels.value.has(label)
  const title = `${isHidden ? 'Show' : 'Hide'} them${key === null ? '' : `; ${key} gives this class`}`
  return (
    <li>
      <button
        type="button"
        class="chip"
        style={{ '--mark': colourOf(label).fill }}
        aria-pressed={!isHidden}
        title={title}
        onClick={() => {
          const next = new Set(hiddenLabels.value)
          if (!next.delete(label)) next.add(label)
          hiddenLabels.value = next
        }}
      >
        {key !== null && <kbd>{key}</kbd>}
        <span class="chip-dot" />
        {label}
        <span class="count">{count}</span>
      </button>
    </li>
  )
}

/** Enter takes the first class that fits, or what is typed as a new one. */
function ClassField() {
  const input = useRef<HTMLInputElement>(null)
  // Before the next key arrives.
  useLayoutEffect(() => input.current?.focus(), [])
  const leave = () => {
    classFilter.value = null
    focusStage()
  }
  return (
    <input
      ref={input}
      aria-label="Class"
      placeholder="Letters of a class, then Enter"
      autocomplete="off"
      value={classFilter.value ?? ''}
      onInput={({ currentTarget }) => {
        classFilter.value = currentTarget.value
      }}
      onBlur={() => {
        classFilter.value = null
      }}
      onKeyDown={(event) => {
        if (event.key !== 'Enter' && event.key !== 'Escape') return
        event.preventDefault()
        const label = foundClasses.value[0] ?? classFilter.value?.trim()
        if (event.key === 'Enter' && label) giveClass(label)
        leave()
      }}
    />
  )
}
