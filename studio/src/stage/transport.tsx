import { useComputed } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { chosenMark } from '../marks/mark.ts'
import { IconButton } from '../widgets/button.tsx'
import type { Playback } from './playback.ts'
import { timeText } from './time-text.ts'

interface TransportProps {
  readonly playback: Playback
  /** Whether there are frames to step by. */
  readonly hasFrames: boolean
  /** At the end of the row. */
  readonly children?: ComponentChildren
}

/** The buttons under a video or a sound. */
export function Transport({ playback, hasFrames, children }: TransportProps) {
  const isPlaying = playback.isPlaying.value
  const isMuted = playback.isMuted.value
  return (
    <div class="transport">
      {hasFrames && <IconButton icon="back" label="Previous frame" onClick={() => playback.step(-1)} />}
      <IconButton
        icon={isPlaying ? 'pause' : 'play'}
        label={isPlaying ? 'Pause' : 'Play'}
        onClick={() => {
          chosenMark.value = null
          playback.toggle()
        }}
      />
      {hasFrames && <IconButton icon="forward" label="Next frame" onClick={() => playback.step(1)} />}
      <Time playback={playback} />
      <div class="transport-end">
        {children}
        <IconButton
          icon={isMuted ? 'muted' : 'sound'}
          label={isMuted ? 'Play its sound' : 'Mute'}
          onClick={() => playback.toggleSound()}
        />
      </div>
    </div>
  )
}

function Time({ playback }: { readonly playback: Playback }) {
  const text = useComputed(() => timeText(playback.time.value))
  return (
    <span class="transport-time">
      {text} <span class="muted">/ {timeText(playback.duration)}</span>
    </span>
  )
}

/**
 * The keys of a stage that plays: space plays and pauses, arrows step, with Shift by a second, Home and End go to the ends.
 * Buttons and fields keep the keys that are theirs.
 * @param step what an arrow does, in the direction -1 or 1
 */
export function onPlaybackKey(event: KeyboardEvent, playback: Playback, step: (direction: number) => void): void {
  if (event.ctrlKey || event.metaKey || event.altKey) return
  const target = event.target as Element
  if (target.closest('input, select, textarea') !== null) return
  const move = (direction: number) =>
    event.shiftKey ? playback.seek(playback.time.value + direction) : step(direction)
  const actions: Record<string, () => void> = {
    ArrowLeft: () => move(-1),
    ArrowRight: () => move(1),
    Home: () => playback.seek(0),
    End: () => playback.seek(playback.duration),
    ...(target.closest('button') === null ? { ' ': () => playback.toggle() } : {}),
  }
  const action = actions[event.key]
  if (action === undefined) return
  event.preventDefault()
  event.stopPropagation()
  chosenMark.value = null
  action()
}
