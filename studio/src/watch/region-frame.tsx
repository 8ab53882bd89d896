import { useSignal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { useLayoutEffect, useRef } from 'preact/hooks'
import type { Edges } from '../../../src/watches/watch-region.ts'
import type { Point } from '../marks/mark.ts'
import { type Handle, reshape } from '../stage/reshape.ts'
import { draft } from './region.ts'
import type { Watch } from './wire.ts'

const CORNERS: readonly Handle[] = ['nw', 'ne', 'se', 'sw']
/** Share of the frame's sides, for each press of an arrow key. */
const STEP = 0.01
const LONG_STEP = 0.1
const ARROWS: Readonly<Record<string, Point>> = {
  ArrowLeft: { x: -1, y: 0 },
  ArrowRight: { x: 1, y: 0 },
  ArrowUp: { x: 0, y: -1 },
  ArrowDown: { x: 0, y: 1 },
}

/** A picture or video with the part of it that the watch looks at; the rest is dimmed. It is as wide as there is room. */
export function RegionFrame({ watch, children }: { readonly watch: Watch; readonly children: ComponentChildren }) {
  const frame = useRef<HTMLDivElement>(null)
  const ratio = useSignal<number | null>(null)
  // A picture that is there already loads before the page is painted.
  useLayoutEffect(() => {
    const stop = new AbortController()
    const measure = ({ target }: Event) => {
      const [width, height] =
        target instanceof HTMLImageElement
          ? [target.naturalWidth, target.naturalHeight]
          : [(target as HTMLVideoElement).videoWidth, (target as HTMLVideoElement).videoHeight]
      if (width > 0 && height > 0) ratio.value = width / height
    }
    for (const event of ['load', 'loadedmetadata', 'resize']) {
      // They do not bubble.
      frame.current!.addEventListener(event, measure, { capture: true, signal: stop.signal })
    }
    return () => stop.abort()
  }, [])
  const region = draft.value ?? watch.region
  return (
    <div class="watch-stage">
      <div ref={frame} class="watch-frame" style={ratio.value === null ? {} : { '--ratio': ratio.value }}>
        {children}
        {region !== null && ratio.value !== null && <RegionBox region={region} isDrawn={draft.value !== null} />}
      </div>
    </div>
  )
}

/** What is dragged: a corner of the region, all of it, or the second corner of a new one. */
interface Drag {
  readonly handle: Handle | null
  readonly from: Point
  readonly points: readonly Point[]
}

function RegionBox({ region, isDrawn }: { readonly region: Edges; readonly isDrawn: boolean }) {
  const { top, left, bottom, right } = region
  const layer = useRef<HTMLDivElement>(null)
  const drag = useRef<Drag | null>(null)
  const style = {
    ...{ top: `${top * 100}%`, left: `${left * 100}%` },
    ...{ width: `${(right - left) * 100}%`, height: `${(bottom - top) * 100}%` },
  }
  if (!isDrawn) {
    return (
      <div class="watch-region-layer">
        <div class="watch-region" style={style} />
      </div>
    )
  }
  const points = [
    { x: left, y: top },
    { x: right, y: bottom },
  ]
  const placeOf = ({ clientX, clientY }: PointerEvent): Point => {
    const box = layer.current!.getBoundingClientRect()
    const within = (value: number) => Math.min(1, Math.max(0, value))
    return { x: within((clientX - box.left) / box.width), y: within((clientY - box.top) / box.height) }
  }
  const change = (from: readonly Point[], handle: Handle | null, by: Point) => {
    const [start, end] = reshape(from, handle, by) as [Point, Point]
    draft.value = { top: start.y, left: start.x, bottom: end.y, right: end.x }
  }
  return (
    <div
      ref={layer}
      class="watch-region-layer drawn"
      onPointerDown={(event) => {
        if (event.button !== 0) return
        event.currentTarget.setPointerCapture(event.pointerId)
        const target = event.target as HTMLElement
        const corner = target.dataset.corner as Handle | undefined
        const from = placeOf(event)
        // The whole frame is not moved, but drawn on.
        const isMoved = target.classList.contains('watch-region') && (right - left < 1 || bottom - top < 1)
        if (corner !== undefined) drag.current = { handle: corner, from, points }
        else if (isMoved) drag.current = { handle: null, from, points }
        else drag.current = { handle: 'se', from, points: [from, from] }
      }}
      onPointerMove={(event) => {
        if (drag.current === null) return
        const { handle, from, points } = drag.current
        const to = placeOf(event)
        change(points, handle, { x: to.x - from.x, y: to.y - from.y })
      }}
      onLostPointerCapture={() => {
        drag.current = null
      }}
    >
      <div
        class="watch-region"
        style={style}
        role="application"
        tabIndex={0}
        aria-label="Region. Arrow keys move it; with Ctrl, they move its bottom right corner."
        onKeyDown={(event) => {
          const by = ARROWS[event.key]
          if (by === undefined) return
          event.preventDefault()
          const step = event.shiftKey ? LONG_STEP : STEP
          change(points, event.ctrlKey || event.altKey ? 'se' : null, { x: by.x * step, y: by.y * step })
        }}
      >
        {CORNERS.map((corner) => (
          <span key={corner} class={`watch-corner ${corner}`} data-corner={corner} />
        ))}
      </div>
    </div>
  )
}
