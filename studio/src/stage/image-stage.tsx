import { type ReadonlySignal, signal, useComputed, useSignal, useSignalEffect } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks'
import { boundsOf } from '../marks/geometry.ts'
import { chosenMark, type Mark, type Point } from '../marks/mark.ts'
import type { Attachment } from '../media/attachment.ts'
import { IconButton } from '../widgets/button.tsx'
import { showsLabels, toggleLabels } from './label-visibility.ts'
import { Legend } from './legend.tsx'
import { type MarkDraft, Overlay } from './overlay.tsx'
import { type Handle, reshape } from './reshape.ts'
import { fitted, pan, type Size, show, toImage, type Viewport, zoom } from './viewport.ts'

/** What the pointer does on the picture, besides moving it. */
export interface StageTool {
  /** Shown over the picture: "Drag a box around an example". */
  readonly hint?: string
  /**
   * What a drag makes, instead of moving the picture.
   * @param from the box's top-left corner. @param to its bottom-right corner.
   */
  onBox?(attachment: Attachment, from: Point, to: Point): void
  /** What a click makes, instead of choosing a mark. */
  onPoint?(attachment: Attachment, at: Point): void
  /** Lets the chosen mark be moved and resized. */
  readonly editor?: MarkEditor
  /** The corner of the chosen box that keys move. */
  readonly corner?: Handle
  /** Takes a key before it moves the picture, and says so by preventing what it does by default. */
  onKey?(event: KeyboardEvent): void
}

export interface MarkEditor {
  canEdit(mark: Mark): boolean
  /** Told once, when the drag is over. */
  onChange(mark: Mark, points: readonly Point[]): void
}

interface ImageStageProps {
  readonly image: Attachment
  readonly marks: readonly Mark[]
  readonly tool: StageTool | null
  /** What is seen instead of the image itself: a video. */
  readonly children?: ComponentChildren
  /** For those who do not see the picture: which keys do what. */
  readonly keys?: string
}

/** CSS pixels for each pixel of the picture on the stage. */
export const shownScale = signal(1)

/** A shorter drag is a click. */
const LEAST_DRAG_PX = 4

/** An image with its marks, to zoom and pan by wheel, pointer, touch and keyboard. */
export function ImageStage({ image, marks, tool, children, keys = 'Arrows move.' }: ImageStageProps) {
  const frame = useRef<HTMLDivElement>(null)
  const sheet = useRef<HTMLDivElement>(null)
  const view = useSignal<Viewport | null>(null)
  const scale = useComputed(() => view.value?.scale ?? 1)
  const drawn = useSignal<{ from: Point; to: Point } | null>(null)
  const draft = useSignal<MarkDraft | null>(null)
  const isDrawing = tool?.onBox !== undefined || tool?.onPoint !== undefined

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
      const size = frameSize()
      // It first reports the size that is known; by then the user may have moved the image.
      if (size.width === last.width && size.height === last.height) return
      const before = fitted(image, last)
      last = size
      if (view.value === null || Math.abs(view.value.scale - before.scale) < 1e-6) fitWhole()
    })
    observer.observe(frame.current!)
    return () => observer.disconnect()
  }, [image.id])

  // Panning moves one composited layer and renders nothing again.
  useSignalEffect(() => {
    if (view.value === null || sheet.current === null) return
    const { x, y, scale: by } = view.value
    sheet.current.style.transform = `translate(${x}px, ${y}px)`
    sheet.current.style.width = `${image.width * by}px`
    sheet.current.style.height = `${image.height * by}px`
    sheet.current.style.setProperty('--pixel', String(1 / by))
    shownScale.value = by
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
    onGrab: (target) => {
      const grip = isDrawing ? null : gripAt(target, marks, tool?.editor)
      if (grip === null) return null
      return (start, end, outcome) => {
        const [a, b] = [toImage(view.value!, start, image), toImage(view.value!, end, image)]
        const points = reshape(grip.mark.points, grip.handle, { x: b.x - a.x, y: b.y - a.y })
        if (outcome === 'done') tool!.editor!.onChange(grip.mark, points)
        draft.value = outcome === 'going-on' ? { id: grip.mark.id, points } : null
      }
    },
    onTap: tool?.onPoint ? (at) => tool.onPoint!(image, toImage(view.value!, at, image)) : null,
    onDraw:
      tool?.onBox === undefined
        ? null
        : (start, end, outcome) => {
            const [a, b] = [toImage(view.value!, start, image), toImage(view.value!, end, image)]
            const box = {
              from: { x: Math.min(a.x, b.x), y: Math.min(a.y, b.y) },
              to: { x: Math.max(a.x, b.x), y: Math.max(a.y, b.y) },
            }
            drawn.value = outcome === 'going-on' ? box : null
            if (outcome === 'done') tool.onBox!(image, box.from, box.to)
          },
  })

  const onKeyDown = (event: KeyboardEvent) => {
    tool?.onKey?.(event)
    if (event.defaultPrevented) return
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
      class={`image-stage ${isDrawing ? 'drawing' : ''}`}
      tabIndex={0}
      role="group"
      aria-label={`${image.name}, ${image.width} by ${image.height} pixels. Plus and minus zoom, 0 shows all. ${keys}`}
      onKeyDown={onKeyDown}
      onDblClick={fitWhole}
      {...gestures.handlers}
    >
      <div ref={sheet} class="sheet">
        {children ?? <img key={image.id} src={image.url} alt={image.name} draggable={false} />}
        <Overlay
          marks={marks}
          size={image}
          scale={scale}
          draft={draft}
          canEdit={tool?.editor && !isDrawing ? tool.editor.canEdit : null}
          corner={tool?.corner}
        />
        <DrawnBox box={drawn} />
      </div>
      {tool?.hint && <p class="stage-hint">{tool.hint}</p>}
      <Legend marks={marks} />
      <div class="stage-tools" onDblClick={(event) => event.stopPropagation()}>
        {marks.length > 0 && (
          <IconButton icon="tag" label="Show all labels" pressed={showsLabels.value} onClick={toggleLabels} />
        )}
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

/** Told where a drag began and where it is, in CSS pixels of the frame, as long as it goes on, and once at its end. */
type Drag = (start: Point, end: Point, outcome: 'going-on' | 'done' | 'cancelled') => void

interface PointerActions {
  onDrag(dx: number, dy: number): void
  onPinch(factor: number, at: Point): void
  /** What a drag that begins at an element does; null when the element cannot be dragged. */
  onGrab(target: Element): Drag | null
  /** Null when drags move the image. */
  readonly onDraw: Drag | null
  /** A click at a place of the frame; null when clicks choose marks. */
  readonly onTap: ((at: Point) => void) | null
}

/** Drags with one pointer and pinches with two. */
function usePointers(frame: { current: HTMLElement | null }, actions: PointerActions) {
  const pointers = useRef(new Map<number, Point>())
  const start = useRef<Point | null>(null)
  const isDrag = useRef(false)
  /** What the drag does, other than moving the image. */
  const drag = useRef<Drag | null>(null)
  const cancel = () => {
    if (isDrag.current && start.current) drag.current?.(start.current, start.current, 'cancelled')
    drag.current = null
  }
  const handlers = {
    onPointerDown(event: PointerEvent) {
      const target = event.target as Element
      if (event.button !== 0 || target.closest('button')) return
      const at = placeIn(frame.current!, event)
      pointers.current.set(event.pointerId, at)
      // A second finger makes it a pinch.
      cancel()
      start.current = at
      isDrag.current = false
      // With the key held, drags move the image, with any tool.
      if (pointers.current.size === 1 && !event.altKey) drag.current = actions.onDraw ?? actions.onGrab(target)
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
      } else if (drag.current) drag.current(began, at, 'going-on')
      else actions.onDrag(at.x - before.x, at.y - before.y)
    },
    onPointerUp(event: PointerEvent) {
      const began = start.current
      if (pointers.current.has(event.pointerId) && began && pointers.current.size === 1) {
        const at = placeIn(frame.current!, event)
        if (!isDrag.current) actions.onTap?.(at)
        else drag.current?.(began, at, 'done')
        drag.current = null
      }
      forget(event)
    },
    onPointerCancel(event: PointerEvent) {
      cancel()
      forget(event)
    },
  }
  const forget = (event: PointerEvent) => {
    pointers.current.delete(event.pointerId)
    if (pointers.current.size === 0) start.current = null
  }
  return { handlers, move: actions.onDrag }
}

/** What a drag that begins at an element changes: the chosen mark, by one of its handles or as a whole. */
function gripAt(
  target: Element,
  marks: readonly Mark[],
  editor: MarkEditor | undefined,
): { mark: Mark; handle: Handle | null } | null {
  const mark = marks.find(({ id }) => id === chosenMark.value)
  if (mark === undefined || !editor?.canEdit(mark)) return null
  const handle = target.closest('[data-handle]')?.getAttribute('data-handle') as Handle | undefined
  if (handle) return { mark, handle }
  return target.closest('[data-mark]')?.getAttribute('data-mark') === mark.id ? { mark, handle: null } : null
}

/** Where a pointer is, in CSS pixels of the frame. */
function placeIn(frame: HTMLElement, event: MouseEvent): Point {
  const { left, top } = frame.getBoundingClientRect()
  return { x: event.clientX - left, y: event.clientY - top }
}
