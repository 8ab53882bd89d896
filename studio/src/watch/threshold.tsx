import { useRef } from 'preact/hooks'

interface ThresholdProps {
  /** What a screen reader says. */
  readonly label: string
  readonly value: number
  readonly least: number
  readonly most: number
  onMove(value: number): void
  /** It is moved no more: the pointer or the key has let go. */
  onRelease(): void
}

export const STEP = 0.01
const LONG_STEP = 0.1
/** Keys that follow one another are one change. */
const PAUSE_MS = 400
const KEYS: Readonly<Record<string, (value: number) => number>> = {
  ArrowUp: (value) => value + STEP,
  ArrowRight: (value) => value + STEP,
  ArrowDown: (value) => value - STEP,
  ArrowLeft: (value) => value - STEP,
  PageUp: (value) => value + LONG_STEP,
  PageDown: (value) => value - LONG_STEP,
  Home: () => 0,
  End: () => 1,
}

/** A line over a graph of probabilities, from 0 at its foot to 1, that is dragged up and down. */
export function Threshold({ label, value, least, most, onMove, onRelease }: ThresholdProps) {
  const line = useRef<HTMLDivElement>(null)
  const pause = useRef<number | undefined>(undefined)
  const move = (wanted: number) => {
    const moved = Number(Math.min(most, Math.max(least, Math.round(wanted / STEP) * STEP)).toFixed(2))
    if (moved !== value) onMove(moved)
  }
  const percent = Math.round(value * 100)
  return (
    <div
      ref={line}
      class="watch-threshold"
      style={{ top: `${(1 - value) * 100}%` }}
      role="slider"
      tabIndex={0}
      aria-label={label}
      aria-orientation="vertical"
      aria-valuemin={Math.round(least * 100)}
      aria-valuemax={Math.round(most * 100)}
      aria-valuenow={percent}
      aria-valuetext={`${percent} %`}
      title={`${label}: ${percent} %. Drag it, or use the arrow keys.`}
      onPointerDown={(event) => {
        if (event.button !== 0) return
        event.currentTarget.setPointerCapture(event.pointerId)
      }}
      onPointerMove={(event) => {
        if (!event.currentTarget.hasPointerCapture(event.pointerId)) return
        const { top, height } = line.current!.parentElement!.getBoundingClientRect()
        move(1 - (event.clientY - top) / height)
      }}
      onLostPointerCapture={onRelease}
      onKeyDown={(event) => {
        const next = KEYS[event.key]
        if (next === undefined) return
        event.preventDefault()
        clearTimeout(pause.current)
        move(next(value))
      }}
      onKeyUp={(event) => {
        if (!(event.key in KEYS)) return
        clearTimeout(pause.current)
        pause.current = window.setTimeout(onRelease, PAUSE_MS)
      }}
    >
      <span class="level-label">{percent} %</span>
    </div>
  )
}
