import { useSignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import type { Clip, Mark } from '../marks/mark.ts'
import type { Attachment } from '../media/attachment.ts'
import { peaksOf } from '../media/waveform.ts'
import { Timeline } from './timeline.tsx'
import { onPlaybackKey, Transport } from './transport.tsx'
import { usePlayback } from './use-playback.ts'

interface AudioStageProps {
  readonly audio: Attachment
  readonly clips: readonly Clip[]
}

const NO_MARKS: readonly Mark[] = []
/** By an arrow key, in seconds. */
const STEP_S = 0.2

/** A sound with its waveform, its controls, and what was found when. */
export function AudioStage({ audio, clips }: AudioStageProps) {
  const element = useRef<HTMLAudioElement>(null)
  const playback = usePlayback(audio, element, { clips, marks: NO_MARKS })
  const step = (direction: number) => playback.seek(playback.time.value + direction * STEP_S)
  return (
    <div class="timed-stage audio" onKeyDownCapture={(event) => onPlaybackKey(event, playback, step)}>
      {/* biome-ignore lint/a11y/useMediaCaption: the user's own sound. */}
      <audio ref={element} src={audio.url} preload="auto" />
      <div class="playback-panel">
        <h2 class="audio-name">{audio.name}</h2>
        <Timeline playback={playback} clips={clips} marks={NO_MARKS}>
          <Waveform audio={audio} />
        </Timeline>
        <Transport playback={playback} hasFrames={false} />
      </div>
    </div>
  )
}

/** Drawn once; the browser stretches it to the room there is. */
function Waveform({ audio }: { readonly audio: Attachment }) {
  const outline = useSignal('')
  useEffect(() => {
    let isGone = false
    peaksOf(audio).then(
      (peaks) => {
        if (!isGone) outline.value = outlineOf(peaks)
      },
      // A sound that can be played but not decoded is shown without its waveform.
      () => {},
    )
    return () => {
      isGone = true
    }
  }, [audio.id])
  return (
    <svg class="waveform" viewBox="0 -1 1 2" preserveAspectRatio="none" aria-hidden="true">
      <path d={outline.value} />
    </svg>
  )
}

/** Along the upper peaks, and back along the lower ones. */
function outlineOf(peaks: readonly (readonly [low: number, high: number])[]): string {
  const places = peaks.map(([low, high], index) => ({ x: (index + 0.5) / peaks.length, low, high }))
  const upper = places.map(({ x, high }) => `${x.toFixed(4)} ${(-high).toFixed(3)}`)
  const lower = places.reverse().map(({ x, low }) => `${x.toFixed(4)} ${(-low).toFixed(3)}`)
  return `M${[...upper, ...lower].join('L')}Z`
}
