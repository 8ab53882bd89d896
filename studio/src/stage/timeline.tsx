import { useComputed, useSignalEffect } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { useMemo, useRef } from 'preact/hooks'
import { colourOf } from '../marks/colours.ts'
import { type Clip, chosenMark, lighting, litMark, type Mark } from '../marks/mark.ts'
import { type Lane, lanesOf, type Span } from './moments.ts'
import type { Playback } from './playback.ts'
import { spanText, timeText } from './time-text.ts'

interface TimelineProps {
  readonly playback: Playback
  readonly clips: readonly Clip[]
  readonly marks: readonly Mark[]
  /** What the bar to scrub on shows. */
  readonly children?: ComponentChildren
}

/** Where in a video or a sound things are: a bar to scrub on, and below it a lane for each label. */
export function Timeline({ playback, clips, marks, children }: TimelineProps) {
  const track = useRef<HTMLDivElement>(null)
  const playhead = useRef<HTMLDivElement>(null)
  const lanes = useMemo(() => lanesOf(clips, marks), [clips, marks])
  // Moves one element, sixty times a second, and renders nothing again.
  useSignalEffect(() => {
    if (playhead.current) playhead.current.style.left = percent(playback.time.value, playback)
  })
  const scrubTo = (event: PointerEvent) => {
    const { left, width } = track.current!.getBoundingClientRect()
    chosenMark.value = null
    playback.seek(((event.clientX - left) / width) * playback.duration)
  }
  return (
    <div
      class={`timeline ${lanes.length > 0 ? 'with-lanes' : ''}`}
      onPointerDown={(event) => {
        if (event.button !== 0 || (event.target as Element).closest('button, .lane-name')) return
        event.currentTarget.setPointerCapture(event.pointerId)
        scrubTo(event)
      }}
      onPointerMove={(event) => {
        if (event.currentTarget.hasPointerCapture(event.pointerId)) scrubTo(event)
      }}
    >
      <Scrubber playback={playback}>{children}</Scrubber>
      {lanes.length > 0 && (
        <ul class="lanes" aria-label="When">
          {lanes.map((lane) => (
            <LaneView key={lane.label} lane={lane} playback={playback} />
          ))}
        </ul>
      )}
      <div ref={track} class="playhead-track">
        <div ref={playhead} class="playhead" />
      </div>
    </div>
  )
}

/** What takes the focus and says where playback is; the keys are the stage's. */
function Scrubber({ playback, children }: { readonly playback: Playback; readonly children?: ComponentChildren }) {
  const tenths = useComputed(() => Math.round(playback.time.value * 10) / 10)
  return (
    <div
      class={`scrubber ${children ? 'tall' : ''}`}
      role="slider"
      tabIndex={0}
      aria-label="Position"
      aria-valuemin={0}
      aria-valuemax={Number(playback.duration.toFixed(1))}
      aria-valuenow={tenths.value}
      aria-valuetext={`${timeText(tenths.value)} of ${timeText(playback.duration)}`}
    >
      {children}
    </div>
  )
}

function LaneView({ lane: { label, spans }, playback }: { readonly lane: Lane; readonly playback: Playback }) {
  return (
    <li class="lane" style={{ '--mark': colourOf(label).fill }}>
      <span class="lane-name" title={label}>
        {label || 'here'}
      </span>
      <div class="lane-track">
        {spans.map((span) => (
          <SpanButton key={span.id} label={label} span={span} playback={playback} />
        ))}
      </div>
    </li>
  )
}

interface SpanButtonProps {
  readonly label: string
  readonly span: Span
  readonly playback: Playback
}

function SpanButton({ label, span: { id, start, end }, playback }: SpanButtonProps) {
  const isLit = litMark.value === id || chosenMark.value === id
  const name = `${label || 'here'}, ${spanText(start, end)}`
  return (
    <button
      type="button"
      class={`span ${end === null ? 'moment' : ''} ${isLit ? 'lit' : ''}`}
      style={{
        left: percent(start, playback),
        ...(end === null ? {} : { width: `calc(${percent(end, playback)} - ${percent(start, playback)})` }),
      }}
      data-span={id}
      aria-label={name}
      title={name}
      {...lighting(id)}
      onClick={() => {
        chosenMark.value = id
        playback.seek(start)
      }}
    />
  )
}

function percent(time: number, { duration }: Playback): string {
  return `${duration === 0 ? 0 : Math.min(100, (time / duration) * 100)}%`
}
