import { useMemo, useRef } from 'preact/hooks'
import type { Clip, Mark } from '../marks/mark.ts'
import type { Attachment } from '../media/attachment.ts'
import { canHear, sendsSound } from '../media/soundtrack.ts'
import { CheckField } from '../widgets/fields/field.tsx'
import { ImageStage } from './image-stage.tsx'
import { visibleMarks } from './moments.ts'
import type { Playback } from './playback.ts'
import { Timeline } from './timeline.tsx'
import { onPlaybackKey, Transport } from './transport.tsx'
import { usePlayback } from './use-playback.ts'

interface VideoStageProps {
  readonly video: Attachment
  readonly marks: readonly Mark[]
  readonly clips: readonly Clip[]
}

/** A video with the marks of the moment, its controls, and a timeline of what was found when. */
export function VideoStage({ video, marks, clips }: VideoStageProps) {
  const element = useRef<HTMLVideoElement>(null)
  const playback = usePlayback(video, element, { clips, marks })
  return (
    <div
      class="timed-stage"
      // Before the picture, for which arrows are a way to pan.
      onKeyDownCapture={(event) => onPlaybackKey(event, playback, (direction) => playback.step(direction))}
    >
      <Picture video={video} element={element} marks={marks} playback={playback} />
      <div class="playback-panel">
        <Transport playback={playback} hasFrames>
          {canHear.value && (
            <CheckField
              label="Include its sound"
              checked={sendsSound.value}
              onChange={(value) => {
                sendsSound.value = value
              }}
            />
          )}
        </Transport>
        <Timeline playback={playback} clips={clips} marks={marks} />
      </div>
    </div>
  )
}

interface PictureProps {
  readonly video: Attachment
  readonly element: { current: HTMLVideoElement | null }
  readonly marks: readonly Mark[]
  readonly playback: Playback
}

/** Renders again when other marks are to be seen, not with every frame. */
function Picture({ video, element, marks, playback }: PictureProps) {
  const visible = useMemo(() => visibleMarks(marks, playback.time), [marks, playback])
  return (
    <ImageStage image={video} marks={visible.value} tool={null} keys="Space plays, arrows step by frames.">
      {/* biome-ignore lint/a11y/useMediaCaption: the user's own video. */}
      <video ref={element} src={video.url} playsInline preload="auto" />
    </ImageStage>
  )
}
