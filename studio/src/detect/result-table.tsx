import { signal, useComputed } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { colourOf } from '../marks/colours.ts'
import { chosenMark, lighting, litMark } from '../marks/mark.ts'
import { Icon } from '../widgets/icon.tsx'
import { keepInView } from '../widgets/keep-in-view.ts'
import { chanceText } from '../widgets/quantities.ts'
import { comparisons } from './compare/comparison.ts'
import { areaOf, comparePlaces, type Spot } from './labelling/spot.ts'
import { originOf, type Result, removeSpot } from './results.ts'
import { sureSpots } from './sureness.ts'

type Column = 'label' | 'place' | 'size' | 'confidence'

/** Null keeps the order in which the model found them. */
const order = signal<{ readonly by: Column; readonly isDescending: boolean } | null>(null)

const COMPARE: Readonly<Record<Column, (one: Spot, other: Spot) => number>> = {
  label: (one, other) => one.label.localeCompare(other.label),
  place: comparePlaces,
  size: (one, other) => areaOf(one) - areaOf(other),
  confidence: ({ confidence: one = 1 }, { confidence: other = 1 }) => one - other,
}

/** All that is on the picture, a row for each. Rows and marks light up together. */
export function ResultTable({ result, media, hidden }: { result: Result; media: string; hidden: ReadonlySet<string> }) {
  const { by, isDescending } = order.value ?? { by: null, isDescending: false }
  const isPoints = result.spots.every(({ kind }) => kind === 'point')
  const isRated = result.rating !== null
  const shown = sureSpots(result).filter(({ label }) => !hidden.has(label))
  if (by) shown.sort((one, other) => COMPARE[by](one, other) * (isDescending ? -1 : 1))
  const isChosenHere = shown.some(({ id }) => id === chosenMark.value)
  const matched = comparisons.value?.outcomes.get(media)?.matched
  return (
    <table
      class={`results ${matched ? 'compared' : ''}`}
      // biome-ignore lint/a11y/noNoninteractiveElementToInteractiveRole: its rows are chosen and walked through.
      role="grid"
      aria-label="Found objects"
      onKeyDown={(event) => onKey(event, media)}
    >
      <thead>
        <tr>
          <Head column="label" title="Label" />
          <Head column="place" title={isPoints ? 'x, y' : 'left, top – right, bottom'} />
          {!isPoints && <Head column="size" title="Size" />}
          {isRated && <Head column="confidence" title="Sure" />}
          {matched && <th scope="col">IoU</th>}
        </tr>
      </thead>
      <tbody>
        {shown.map((spot, index) => (
          <Row
            key={spot.id}
            spot={spot}
            origin={originOf(result, spot)}
            isPoints={isPoints}
            isRated={isRated}
            isFirst={index === 0 && !isChosenHere}
            iou={matched && (matched.get(spot.id) ?? null)}
          />
        ))}
      </tbody>
    </table>
  )
}

function Head({ column, title }: { readonly column: Column; readonly title: string }) {
  const current = order.value?.by === column ? order.value : null
  const next =
    current === null
      ? { by: column, isDescending: false }
      : current.isDescending
        ? null
        : { by: column, isDescending: true }
  return (
    <th
      scope="col"
      class={column}
      aria-sort={current === null ? 'none' : current.isDescending ? 'descending' : 'ascending'}
    >
      <button
        type="button"
        onClick={() => {
          order.value = next
        }}
      >
        {title}
        <span aria-hidden="true">{current === null ? '' : current.isDescending ? ' ↓' : ' ↑'}</span>
      </button>
    </th>
  )
}

interface RowProps {
  readonly spot: Spot
  readonly origin: ReturnType<typeof originOf>
  readonly isPoints: boolean
  readonly isRated: boolean
  readonly isFirst: boolean
  /** Null for a spot that the file does not have; undefined without a file. */
  readonly iou: number | null | undefined
}

function Row({ spot, origin, isPoints, isRated, isFirst, iou }: RowProps) {
  const { id, label, left, top, right, bottom, confidence } = spot
  const row = useRef<HTMLTableRowElement>(null)
  const isChosen = useComputed(() => chosenMark.value === id).value
  const isLit = useComputed(() => litMark.value === id).value
  useEffect(() => {
    if (isChosen) keepInView(row.current, row.current?.closest('.panel-body'))
  }, [isChosen])
  return (
    <tr
      ref={row}
      class={isLit ? 'lit' : ''}
      data-row={id}
      aria-selected={isChosen}
      tabIndex={isChosen || isFirst ? 0 : -1}
      style={{ '--mark': colourOf(label).fill }}
      {...lighting(id)}
      onClick={() => {
        chosenMark.value = id
      }}
      onFocus={() => {
        chosenMark.value = id
      }}
    >
      <td class="label-cell">
        <span class="chip-dot" />
        <span class="label-name">{label}</span>
        {origin !== 'found' && (
          <span class="edited" title={origin === 'added' ? 'Added by hand' : 'Changed by hand'}>
            <Icon name={origin === 'added' ? 'plus' : 'pencil'} size={13} />
            <span class="hidden">{origin === 'added' ? 'added by hand' : 'changed by hand'}</span>
          </span>
        )}
      </td>
      <td>{isPoints ? `${left}, ${top}` : `${left}, ${top} – ${right}, ${bottom}`}</td>
      {!isPoints && <td class="size">{spot.kind === 'point' ? '' : `${right - left} × ${bottom - top}`}</td>}
      {isRated && <td>{confidence === undefined ? '' : chanceText(confidence)}</td>}
      {iou !== undefined && <td>{iou === null ? 'extra' : iou.toFixed(2)}</td>}
    </tr>
  )
}

/** Arrows move between the rows; Delete removes a row's object and goes on to the next. */
function onKey(event: KeyboardEvent, media: string): void {
  const row = (event.target as Element).closest('tr')
  const id = row?.dataset.row
  if (!row || id === undefined || event.ctrlKey || event.altKey || event.metaKey || event.shiftKey) return
  const [before, after] = [row.previousElementSibling, row.nextElementSibling] as (HTMLElement | null)[]
  const isDelete = event.key === 'Delete' || event.key === 'Backspace'
  const next =
    event.key === 'ArrowUp' ? before : event.key === 'ArrowDown' ? after : isDelete ? (after ?? before) : null
  if (isDelete) {
    chosenMark.value = null
    removeSpot(media, id)
  }
  if (next === null && !isDelete) return
  event.preventDefault()
  event.stopPropagation()
  next?.focus()
}
