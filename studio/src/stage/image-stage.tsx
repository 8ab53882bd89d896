import { type ReadonlySignal, useComputed, useSignal, useSignalEffect } from '@preact/signals'
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks'
import { chosenMark, type Mark, type Point } from '../marks/mark.ts'
import type { Attachment } from '../media/attachment.ts'
import { IconButton } from '../widgets/button.tsx'
import { Overlay } from './overlay.tsx'
import { fitted, pan, type Size, show, toImage, type Viewport, zoom } from './viewport.ts'

/** What a drag on the picture makes, instead of moving the picture. */
export interface StageTool {
  /** Shown over the picture: "Drag a box around an example". */
  readonly hint: string
  /** @param from the box's top-left corner. @param to its bottom-right corner. */
  onBox(attachment: Attachment, from: Point, to: Point): void
}

interface ImageStageProps {
  readonly image: Attachment
  readonly marks: readonly Mark[]
  readonly tool: StageTool | null
}

/** A shorter drag is a click. */
const LEAST_DRAG_PX = 4

/** An image with its marks, to zoom and pan by wheel, pointer, touch and keyboard. */
export function ImageStage({ image, marks, tool }: ImageStageProps) {
  const frame = useRef<HTMLDivElement>(null)
  const sheet = useRef<HTMLDivElement>(null)
  const view = useSignal<Viewport | null>(null)
  const scale = useComputed(() => view.value?.scale ?? 1)
  const drawn = useSignal<{ from: Point; to: Point } | null>(null)

  const frameSize = (): Size => ({ width: frame.current!.clientWidth, height: frame.current!.clientHeight })
  const fitWhole = () => {
    view.value = fitted(image, frameSize())
  }
  const zoomBy = (factor: number, at = { x: frameSize().width / 2, y: frameSize().height / 2 }) => {
    view.value = zoom(view.value!, factor, at, image, frameSize())
  }

  useLayoutEffect(() => {
    fitWhole()
    // Until the user zooms, the image stays fitted; from then on it stays where it is.
    let last = frameSize()
    const observer = new ResizeObserver(() => {
      const before = fitted(image, last)
      last = frameSize()
      if (view.value === null || Math.abs(view.value.scale - before.scale) < 1e-6) fitWhole()
    })
    observer.observe(frame.current!)
    return () => observer.disconnect()
  }, [image.id])

  // Panning moves one composited layer and renders nothing anew.
  useSignalEffect(() => {
    if (view.value === null || sheet.current === null) return
    const { x, y, scale: by } = view.value
    sheet.current.style.transform = `translate(${x}px, ${y}px)`
    sheet.current.style.width = `${image.width * by}px`
    sheet.current.style.height = `${image.height * by}px`
  })

  useSignalEffect(() => {
    const mark = marks.find(({ id }) => id === chosenMark.value)
    if (mark === undefined || view.peek() === null || mark.media !== image.id || isInView(mark, view.peek()!)) return
    view.value = show(boundsOf(mark, image), frameSize())
  })
  const isInView = (mark: Mark, { scale: by, x, y }: Viewport) => {
    const { left, top, right, bottom } = boundsOf(mark, image)
    const { width, height } = frameSize()
    return left * by + x >= 0 && right * by + x <= width && top * by + y >= 0 && bottom * by + y <= height
  }

  useEffect(() => {
    const element = frame.current!
    const onWheel = (event: WheelEvent) => {
      event.preventDefault()
      zoomBy(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0015)), placeIn(element, event))
    }
    // A listener that is not passive keeps the page from scrolling.
    element.addEventListener('wheel', onWheel, { passive: false })
    return () => element.removeEventListener('wheel', onWheel)
  }, [image.id])

  const gestures = usePointers(frame, {
    onDrag(dx, dy) {
      view.value = pan(view.value!, dx, dy, image, frameSize())
    },
    onPinch: (factor, at) => zoomBy(factor, at),
    onDraw:
      tool === null
        ? null
        : (start, end, isDone) => {
            const [a, b] = [toImage(view.value!, start, image), toImage(view.value!, end, image)]
            const box = {
              from: { x: Math.min(a.x, b.x), y: Math.min(a.y, b.y) },
              to: { x: Math.max(a.x, b.x), y: Math.max(a.y, b.y) },
            }
            drawn.value = isDone ? null : box
            if (isDone) tool.onBox(image, box.from, box.to)
          },
  })

  const onKeyDown = (event: KeyboardEvent) => {
    const step = 48
    const moves: Record<string, () => void> = {
      '+': () => zoomBy(1.25),
      '=': () => zoomBy(1.25),
      '-': () => zoomBy(0.8),
      '0': fitWhole,
      ArrowLeft: () => gestures.move(step, 0),
      ArrowRight: () => gestures.move(-step, 0),
      ArrowUp: () => gestures.move(0, step),
      ArrowDown: () => gestures.move(0, -step),
    }
    const move = moves[event.key]
    if (move === undefined || event.ctrlKey || event.metaKey) return
    event.preventDefault()
    move()
  }

  return (
    <div
      ref={frame}
      class={`image-stage ${tool ? 'drawing' : ''}`}
      tabIndex={0}
      role="group"
      aria-label={`${image.name}, ${image.width} by ${image.height} pixels. Plus and minus zoom, arrows move, 0 shows all.`}
      onKeyDown={onKeyDown}
      onDblClick={fitWhole}
      {...gestures.handlers}
    >
      <div ref={sheet} class="sheet">
        <img src={image.url} alt={image.name} draggable={false} />
        <Overlay marks={marks} size={image} scale={scale} />
        <DrawnBox box={drawn} />
      </div>
      {tool && <p class="stage-hint">{tool.hint}</p>}
      <div class="stage-tools" onDblClick={(event) => event.stopPropagation()}>
        <IconButton icon="minus" label="Zoom out" onClick={() => zoomBy(0.8)} />
        <ZoomLevel scale={scale} onClick={fitWhole} />
        <IconButton icon="plus" label="Zoom in" onClick={() => zoomBy(1.25)} />
      </div>
    </div>
  )
}

function ZoomLevel({ scale, onClick }: { scale: ReadonlySignal<number>; onClick: () => void }) {
  return (
    <button type="button" class="zoom-level" title="Show the whole image (0)" onClick={onClick}>
      {Math.round(scale.value * 100)} %
    </button>
  )
}

function DrawnBox({ box }: { box: ReadonlySignal<{ from: Point; to: Point } | null> }) {
  if (box.value === null) return null
  const { from, to } = box.value
  const percent = (value: number) => `${value * 100}%`
  const style = {
    left: percent(from.x),
    top: percent(from.y),
    width: percent(to.x - from.x),
    height: percent(to.y - from.y),
  }
  return <div class="drawn-box" style={style} />
}

interface PointerActions {
  onDrag(dx: number, dy: number): void
  onPinch(factor: number, at: Point): void
  /** Places are in CSS pixels of the frame. Null when drags move the image. */
  readonly onDraw: ((start: Point, end: Point, isDone: boolean) => void) | null
}

/** Drags with one pointer and pinches with two. */
function usePointers(frame: { current: HTMLElement | null }, actions: PointerActions) {
  const pointers = useRef(new Map<number, Point>())
  const start = useRef<Point | null>(null)
  const isDrag = useRef(false)
  const end = (event: PointerEvent, isCancelled: boolean) => {
    const began = start.current
    if (actions.onDraw && began && isDrag.current && pointers.current.size === 1 && !isCancelled) {
      actions.onDraw(began, placeIn(frame.current!, event), true)
    }
    pointers.current.delete(event.pointerId)
    if (pointers.current.size === 0) start.current = null
  }
  const handlers = {
    onPointerDown(event: PointerEvent) {
      if (event.button !== 0 || (event.target as Element).closest('button')) return
      const at = placeIn(frame.current!, event)
      pointers.current.set(event.pointerId, at)
      start.current = at
      isDrag.current = false
    },
    onPointerMove(event: PointerEvent) {
      const before = pointers.current.get(event.pointerId)
      if (before === undefined) return
      const at = placeIn(frame.current!, event)
      const began = start.current!
      if (!isDrag.current && Math.hypot(at.x - began.x, at.y - began.y) < LEAST_DRAG_PX) return
      if (!isDrag.current) {
        isDrag.current = true
        // From here on it is a drag, also outside of the frame; before, a click still reaches the mark under it.
        frame.current!.setPointerCapture(event.pointerId)
      }
      const other = [...pointers.current].find(([id]) => id !== event.pointerId)?.[1]
      pointers.current.set(event.pointerId, at)
      if (other) {
        const distance = (one: Point) => Math.max(1, Math.hypot(one.x - other.x, one.y - other.y))
        const middle = { x: (at.x + other.x) / 2, y: (at.y + other.y) / 2 }
        actions.onPinch(distance(at) / distance(before), middle)
      } else if (actions.onDraw && !event.altKey) actions.onDraw(began, at, false)
      else actions.onDrag(at.x - before.x, at.y - before.y)
    },
    onPointerUp: (event: PointerEvent) => end(event, false),
    onPointerCancel: (event: PointerEvent) => end(event, true),
  }
  return { handlers, move: actions.onDrag }
}

/** Where a pointer is, in CSS pixels of the frame. */
function placeIn(frame: HTMLElement, event: MouseEvent): Point {
  const { left, top } = frame.getBoundingClientRect()
  return { x: event.clientX - left, y: event.clientY - top }
}

/** In pixels of the image. */
function boundsOf({ points }: Mark, { width, height }: Size) {
  const [xs, ys] = [points.map(({ x }) => x * width), points.map(({ y }) => y * height)]
  return { left: Math.min(...xs), top: Math.min(...ys), right: Math.max(...xs), bottom: Math.max(...ys) }
}
