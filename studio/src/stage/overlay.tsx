import type { ReadonlySignal } from '@preact/signals'
import { colourOf } from '../marks/colours.ts'
import { chosenMark, litMark, type Mark } from '../marks/mark.ts'
import type { Size } from './viewport.ts'

interface OverlayProps {
  readonly marks: readonly Mark[]
  /** Of the image, in pixels. */
  readonly size: Size
  /** CSS pixels per image pixel. Labels and lines stay as large as they are. */
  readonly scale: ReadonlySignal<number>
}

const LABEL_HEIGHT = 20
const LABEL_PADDING = 6

/** The marks on an image, as SVG in the image's own pixels. */
export function Overlay({ marks, size, scale }: OverlayProps) {
  const { width, height } = size
  return (
    <svg
      class="overlay"
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
      {marks.map((mark) => (
        <MarkShape key={mark.id} mark={mark} size={size} scale={scale} />
      ))}
    </svg>
  )
}

function MarkShape({ mark, size, scale }: { mark: Mark; size: Size; scale: ReadonlySignal<number> }) {
  const { id, label, kind, role } = mark
  const colour = colourOf(label)
  const points = mark.points.map(({ x, y }) => ({ x: x * size.width, y: y * size.height }))
  const isLit = litMark.value === id || chosenMark.value === id
  const pixel = 1 / scale.value
  const [first, second] = points
  return (
    <g
      class={`mark ${kind} ${role ?? ''} ${isLit ? 'lit' : ''}`}
      data-mark={id}
      data-label={label}
      style={{ '--mark': colour.fill }}
    >
      <title>{label}</title>
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
      {kind === 'point' && <circle class="shape" cx={first!.x} cy={first!.y} r={7 * pixel} />}
      {label !== '' && <Label text={label} colour={colour} at={labelPlace(kind, points, pixel, size)} pixel={pixel} />}
    </g>
  )
}

interface LabelProps {
  readonly text: string
  readonly colour: { readonly fill: string; readonly text: string }
  readonly at: { readonly x: number; readonly y: number }
  /** Image pixels per CSS pixel. */
  readonly pixel: number
}

function Label({ text, colour, at, pixel }: LabelProps) {
  return (
    <g class="label" transform={`translate(${at.x} ${at.y}) scale(${pixel})`}>
      <rect width={widthOf(text) + 2 * LABEL_PADDING} height={LABEL_HEIGHT} rx="4" fill={colour.fill} />
      <text x={LABEL_PADDING} y="14" fill={colour.text}>
        {text}
      </text>
    </g>
  )
}

/** Above the mark where there is room, else within it. @returns the label's top-left corner in image pixels */
function labelPlace(kind: Mark['kind'], points: readonly { x: number; y: number }[], pixel: number, size: Size) {
  const left = Math.min(...points.map(({ x }) => x))
  const top = Math.min(...points.map(({ y }) => y))
  if (kind === 'point') return { x: left + 10 * pixel, y: top - (LABEL_HEIGHT / 2) * pixel }
  const above = top - (LABEL_HEIGHT + 1) * pixel
  const y = above >= 0 ? above : Math.min(top + 2 * pixel, size.height - LABEL_HEIGHT * pixel)
  return { x: left - pixel, y }
}

const widths = new Map<string, number>()
let context: CanvasRenderingContext2D | null = null

/** In CSS pixels, in the labels' font. */
function widthOf(text: string): number {
  let width = widths.get(text)
  if (width === undefined) {
    context ??= document.createElement('canvas').getContext('2d')!
    context.font = '600 12px system-ui, sans-serif'
    width = context.measureText(text).width
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
  return `${marks.length} ${marks.length === 1 ? 'mark' : 'marks'}: ${names.join(', ')}`
}
