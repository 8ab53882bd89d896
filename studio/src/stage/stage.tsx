import { useRef } from 'preact/hooks'
import type { Clip, Mark } from '../marks/mark.ts'
import type { Attachment } from '../media/attachment.ts'
import { attachments, intakeError, remove, select, selected } from '../media/attachments.ts'
import { bringFiles } from '../media/intake.ts'
import { bringSample, SAMPLES } from '../media/samples.ts'
import { Button, IconButton } from '../widgets/button.tsx'
import { Icon } from '../widgets/icon.tsx'
import { Notice } from '../widgets/notice.tsx'
import { ImageStage, type StageTool } from './image-stage.tsx'

interface StageProps {
  readonly marks: readonly Mark[]
  readonly clips: readonly Clip[]
  readonly tool: StageTool | null
}

/** What the questions are about, with what was found on it. */
export function Stage({ marks, clips, tool }: StageProps) {
  const shown = selected.value
  return (
    <section class="stage" aria-label="Stage">
      {shown === null ? <EmptyStage /> : <Shown media={shown} marks={marks} clips={clips} tool={tool} />}
      {intakeError.value && <Notice tone="error">{intakeError.value}</Notice>}
      {shown !== null && <MediaStrip />}
    </section>
  )
}

function Shown({ media, marks, tool }: StageProps & { readonly media: Attachment }) {
  const own = marks.filter((mark) => mark.media === media.id)
  if (media.kind === 'image') return <ImageStage key={media.id} image={media} marks={own} tool={tool} />
  if (media.kind === 'video') {
    // biome-ignore lint/a11y/useMediaCaption: the user's own video.
    return <video key={media.id} class="plain-media" src={media.url} controls />
  }
  // biome-ignore lint/a11y/useMediaCaption: the user's own sound.
  return <audio key={media.id} class="plain-media" src={media.url} controls />
}

function EmptyStage() {
  return (
    <div class="empty-stage">
      <Icon name="image" size={44} />
      <h2>Drop an image, a video or a sound</h2>
      <p>or paste one, or</p>
      <div class="empty-actions">
        <ChooseFiles />
      </div>
      <p>Nothing at hand? Try</p>
      <div class="empty-actions">
        {SAMPLES.map((sample) => (
          <Button key={sample.path} onClick={() => void bringSample(sample)}>
            {sample.title}
          </Button>
        ))}
      </div>
    </div>
  )
}

function ChooseFiles() {
  const input = useRef<HTMLInputElement>(null)
  return (
    <>
      <input
        ref={input}
        type="file"
        class="hidden"
        multiple
        accept="image/*,video/*,audio/*"
        aria-label="Files"
        tabIndex={-1}
        onChange={(event) => {
          void bringFiles(event.currentTarget.files ?? [])
          event.currentTarget.value = ''
        }}
      />
      <Button kind="primary" icon="folder" onClick={() => input.current?.click()}>
        Choose files
      </Button>
    </>
  )
}

/** All media on the stage, to choose which one is shown, to add and to remove. */
function MediaStrip() {
  return (
    <div class="media-strip">
      <ul aria-label="Media">
        {attachments.value.map((one) => (
          <li key={one.id} class={`thumb ${one.id === selected.value?.id ? 'current' : ''}`}>
            <button type="button" aria-label={`Show ${one.name}`} title={one.name} onClick={() => select(one.id)}>
              {one.kind === 'image' ? <img src={one.url} alt="" /> : <Icon name={one.kind} size={24} />}
            </button>
            <IconButton icon="close" label={`Remove ${one.name}`} onClick={() => remove(one.id)} />
          </li>
        ))}
      </ul>
      <ChooseFiles />
    </div>
  )
}
