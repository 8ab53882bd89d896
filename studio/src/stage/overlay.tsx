import { type ReadonlySignal, useComputed } from '@preact/signals'
import { useMemo } from 'preact/hooks'
import { colourOfMark } from '../marks/colours.ts'
import { boundsOf, inPixels } from '../marks/geometry.ts'
import { captionOf, chosenMark, litMark, type Mark, type Point } from '../marks/mark.ts'
import { useKept } from '../widgets/kept.ts'
import { counted } from '../widgets/quantities.ts'
import { LABEL_HEIGHT, type LabelPlace, POINT_RADIUS, placeLabels } from './label-layout.ts'
import { showsLabels } from './label-visibility.ts'
import { HANDLES, type Handle } from './reshape.ts'
import type { Size } from './viewport.ts'

/** A mark while it is dragged. */
export interface MarkDraft {
  readonly id: string
  readonly points: readonly Point[]
}

interface OverlayProps {
  readonly marks: readonly Mark[]
  /** Size of the image, in pixels. */
  readonly size: Size
  /** CSS pixels per image pixel. Labels and lines stay as large as they are. */
  readonly scale: ReadonlySignal<number>
  readonly draft: ReadonlySignal<MarkDraft | null>
  /** Whether the chosen mark has handles; null when none can be changed. */
  readonly canEdit: ((mark: Mark) => boolean) | null
  /** The corner of the chosen box that keys move. */
  readonly corner?: Handle | undefined
}

const LABEL_PADDING = 6

/**
 * The marks on an image, as SVG in the image's own pixels. Zooming changes one CSS variable, `--pixel`, which the stage
 * sets: image pixels per CSS pixel. Marks are rendered again only when they change themselves.
 */
export function Overlay({ marks, size, scale, draft, canEdit, corner }: OverlayProps) {
  const { width, height } = size
  // Labels are placed again a few times while the size doubles, not at each turn of the wheel.
  const step = useComputed(() => 2 ** (Math.round(Math.log2(scale.value) * 4) / 4)).value
  const places = useMemo(() => placesOf(marks, { width, height }, step), [marks, width, height, step])
  const shapes = useKept<Mark>()
  const labels = useKept<string>()
  return (
    <svg
      class={`overlay ${canEdit ? 'editing' : ''} ${showsLabels.value ? '' : 'labels-on-hover'}`}
      viewBox={`0 0 ${width} ${height}`}
      role="img"
      aria-label={describe(marks)}
      onPointerOver={(event) => {
        litMark.value = markAt(event)
      }}
      onPointerLeave={() => {
        litMark.value = null
      }}
      onClick={(event) => {
        chosenMark.value = markAt(event)
      }}
    >
      {marks.map((mark) =>
        shapes(mark.id, mark, () => <MarkShape key={mark.id} mark={mark} size={size} draft={draft} />),
      )}
      {marks.map((mark) => {
        const place = places.get(mark.id)
        if (place === undefined) return null
        const { corner, by, isCrowded } = place
        const state = [captionOf(mark), mark.role, corner.x, corner.y, by.x, by.y, isCrowded].join()
        return labels(mark.id, state, () => <Label key={`${mark.id} label`} mark={mark} place={place} />)
      })}
      <LitLabel marks={marks} places={places} />
      {canEdit && <Handles marks={marks} size={size} draft={draft} canEdit={canEdit} corner={corner} />}
    </svg>
  )
}

function MarkShape({ mark, size, draft }: { mark: Mark; size: Size; draft: ReadonlySignal<MarkDraft | null> }) {
  const { id, label, kind, role } = mark
  const isLit = useComputed(() => litMark.value === id || chosenMark.value === id).value
  const dragged = useComputed(() => (draft.value?.id === id ? draft.value.points : null)).value
  const points = inPixels(dragged ?? mark.points, size)
  const [first, second] = points
  return (
    <g
      class={`mark ${kind} ${role ?? ''} ${isLit ? 'lit' : ''}`}
      data-mark={id}
      data-label={label}
      style={{ '--mark': colourOfMark(mark).fill }}
    >
      <title>{captionOf(mark)}</title>
      {kind === 'box' && (
        <rect
          class="shape"
          x={first!.x}
          y={first!.y}
          width={Math.max(0, second!.x - first!.x)}
          height={Math.max(0, second!.y - first!.y)}
        />
      )}
      {kind === 'polygon' && <polygon class="shape" points={points.map(({ x, y }) => `${x},${y}`).join(' ')} />}
      {kind === 'point' && (
        <g style={{ transform: fixedSize(first!) }}>
          <circle class="shape" r={POINT_RADIUS} />
        </g>
      )}
    </g>
  )
}

function Label({ mark, place, isOnTop = false }: { mark: Mark; place: LabelPlace; isOnTop?: boolean }) {
  const { fill, text } = colourOfMark(mark)
  const caption = captionOf(mark)
  const state = isOnTop ? 'on-top' : place.isCrowded || mark.role === 'unsure' ? 'crowded' : ''
  return (
    <g class={`label ${state}`} data-mark={mark.id} style={{ transform: fixedSize(place.corner, place.by) }}>
      <rect width={labelWidth(caption)} height={LABEL_HEIGHT} rx="4" fill={fill} />
      <text x={LABEL_PADDING} y="14" fill={text}>
        {caption}
      </text>
    </g>
  )
}

/** The label of the mark that is lit, above all others. */
function LitLabel({ marks, places }: { marks: readonly Mark[]; places: ReadonlyMap<string, LabelPlace> }) {
  const id = litMark.value ?? chosenMark.value
  const mark = id === null ? undefined : marks.find((one) => one.id === id)
  const place = mark && places.get(mark.id)
  return mark && place ? <Label mark={mark} place={place} isOnTop /> : null
}

const HANDLE_PX = 10
/** For fingers. */
const HANDLE_REACH_PX = 22

/** What a box is resized by. */
function Handles({
  marks,
  size,
  draft,
  canEdit,
  corner,
}: Pick<OverlayProps, 'marks' | 'size' | 'draft' | 'corner'> & { canEdit: (mark: Mark) => boolean }) {
  const mark = marks.find(({ id }) => id === chosenMark.value)
  if (mark?.kind !== 'box' || !canEdit(mark)) return null
  const [from, to] = inPixels(draft.value?.id === mark.id ? draft.value.points : mark.points, size) as [Point, Point]
  return (
    <g class="handles" data-mark={mark.id} style={{ '--mark': colourOfMark(mark).fill }}>
      {HANDLES.map((handle) => (
        <g key={handle} data-handle={handle} style={{ transform: fixedSize(handlePlace(handle, from, to)) }}>
          <rect class="reach" {...square(HANDLE_REACH_PX)} />
          <rect class={`handle ${handle === corner ? 'held' : ''}`} {...square(HANDLE_PX)} rx="2" />
        </g>
      ))}
    </g>
  )
}

function handlePlace(handle: Handle, from: Point, to: Point): Point {
  const x = handle.includes('w') ? from.x : handle.includes('e') ? to.x : (from.x + to.x) / 2
  const y = handle.includes('n') ? from.y : handle.includes('s') ? to.y : (from.y + to.y) / 2
  return { x, y }
}

function square(side: number) {
  return { x: -side / 2, y: -side / 2, width: side, height: side }
}

/** Puts something that is drawn in CSS pixels at a place of the image. @param by CSS pixels from there */
function fixedSize(at: Point, by: Point = { x: 0, y: 0 }): string {
  return `translate(${at.x}px, ${at.y}px) scale(var(--pixel)) translate(${by.x}px, ${by.y}px)`
}

function placesOf(marks: readonly Mark[], size: Size, scale: number): Map<string, LabelPlace> {
  const isUnsure = ({ role }: Mark) => role === 'unsure'
  const labelled = marks
    .filter(({ label }) => label !== '')
    // The first take the best places.
    .toSorted((one, other) => Number(isUnsure(one)) - Number(isUnsure(other)))
    .map((mark) => ({ id: mark.id, kind: mark.kind, ...boundsOf(mark, size), width: labelWidth(captionOf(mark)) }))
  return placeLabels(labelled, size, scale)
}

const widths = new Map<string, number>()
let context: CanvasRenderingContext2D | null = null

/** In CSS pixels, in the labels' font. */
function labelWidth(text: string): number {
  let width = widths.get(text)
  if (width === undefined) {
    context ??= document.createElement('canvas').getContext('2d')!
    context.font = '600 12px system-ui, sans-serif'
    width = context.measureText(text).width + 2 * LABEL_PADDING
    widths.set(text, width)
  }
  return width
}

function markAt(event: Event): string | null {
  return (event.target as Element).closest('[data-mark]')?.getAttribute('data-mark') ?? null
}

/** For those who do not see the picture. */
function describe(marks: readonly Mark[]): string {
  if (marks.length === 0) return 'No marks'
  const counts = new Map<string, number>()
  for (const { label } of marks) counts.set(label, (counts.get(label) ?? 0) + 1)
  const names = [...counts].map(([label, count]) =>
    count === 1 ? label || 'unnamed' : `${count} ${label || 'unnamed'}`,
  )
  return `${counted(marks.length, 'mark')}: ${names.join(', ')}`
}
