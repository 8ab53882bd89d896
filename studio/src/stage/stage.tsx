import { useSignalEffect } from '@preact/signals'
import { useEffect, useMemo, useRef } from 'preact/hooks'
import { type Clip, chosenMark, type Mark } from '../marks/mark.ts'
import { fetching } from '../media/address.ts'
import type { Attachment } from '../media/attachment.ts'
import { attachments, intakeError, remove, select, selected } from '../media/attachments.ts'
import { BringButtons } from '../media/bring-buttons.tsx'
import { bringSample, SAMPLES } from '../media/samples.ts'
import { Button, IconButton } from '../widgets/button.tsx'
import { Icon } from '../widgets/icon.tsx'
import { keepInView } from '../widgets/keep-in-view.ts'
import { Notice } from '../widgets/notices/notice.tsx'
import { AudioStage } from './audio-stage.tsx'
import { ImageStage, type StageTool } from './image-stage.tsx'
import { VideoStage } from './video-stage.tsx'

interface StageProps {
  readonly marks: readonly Mark[]
  readonly clips: readonly Clip[]
  readonly tool: StageTool | null
}

/** What the questions are about, with what was found on it. */
export function Stage({ marks, clips, tool }: StageProps) {
  const shown = selected.value
  // What is chosen in the text may be on other media than those in view.
  useSignalEffect(() => {
    const id = chosenMark.value
    const media = [...marks, ...clips].find((one) => one.id === id)?.media
    if (media !== undefined && attachments.peek().some((one) => one.id === media)) select(media)
  })
  return (
    <section class="stage" aria-label="Stage">
      {shown === null ? <EmptyStage /> : <Shown media={shown} marks={marks} clips={clips} tool={tool} />}
      {fetching.value && <Notice>Fetching {shortened(fetching.value)}</Notice>}
      {intakeError.value && (
        <Notice
          tone="error"
          actions={
            <IconButton
              icon="close"
              label="Dismiss"
              onClick={() => {
                intakeError.value = null
              }}
            />
          }
        >
          {intakeError.value}
        </Notice>
      )}
      {shown !== null && <MediaStrip />}
    </section>
  )
}

function Shown({ media, marks, clips, tool }: StageProps & { readonly media: Attachment }) {
  const ownMarks = useMemo(() => marks.filter((mark) => mark.media === media.id), [marks, media.id])
  const ownClips = useMemo(() => clips.filter((clip) => clip.media === media.id), [clips, media.id])
  // The next picture takes its place, so that it keeps the focus.
  if (media.kind === 'image') return <ImageStage image={media} marks={ownMarks} tool={tool} />
  if (media.kind === 'video') return <VideoStage key={media.id} video={media} marks={ownMarks} clips={ownClips} />
  return <AudioStage key={media.id} audio={media} clips={ownClips} />
}

function EmptyStage() {
  return (
    <div class="empty-stage">
      <Icon name="image" size={44} />
      <h2>Drop an image, a video or a sound</h2>
      <p>or paste one, or its address, or</p>
      <div class="empty-actions">
        <BringButtons />
      </div>
      <p>Nothing at hand? Try</p>
      <div class="empty-actions">
        {SAMPLES.map((sample) => (
          <Button key={sample.path} icon={sample.icon} onClick={() => void bringSample(sample)}>
            {sample.title}
          </Button>
        ))}
      </div>
    </div>
  )
}

/** All media on the stage, to choose which one is shown, to add and to remove. */
function MediaStrip() {
  const strip = useRef<HTMLDivElement>(null)
  const current = selected.value?.id
  useEffect(() => keepInView(strip.current?.querySelector('.current'), strip.current), [current])
  return (
    <div ref={strip} class="media-strip">
      <ul aria-label="Media">
        {attachments.value.map((one) => (
          <li key={one.id} class={`thumb ${one.id === current ? 'current' : ''}`}>
            <button
              type="button"
              aria-label={`Show ${one.name}`}
              aria-current={one.id === current}
              title={one.name}
              onClick={() => select(one.id)}
            >
              <Thumbnail media={one} />
            </button>
            <IconButton icon="close" label={`Remove ${one.name}`} onClick={() => remove(one.id)} />
          </li>
        ))}
      </ul>
      <BringButtons compact />
    </div>
  )
}

function Thumbnail({ media: { kind, url } }: { readonly media: Attachment }) {
  if (kind === 'image') return <img src={url} alt="" />
  if (kind === 'audio') return <Icon name="audio" size={24} />
  return (
    <>
      <video src={url} preload="metadata" muted tabIndex={-1} />
      <Icon name="play" size={16} />
    </>
  )
}

function shortened(address: string): string {
  return address.length > 80 ? `${address.slice(0, 79)}…` : address
}
