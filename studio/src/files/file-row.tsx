import { useEffect, useRef } from 'preact/hooks'
import { IconButton } from '../widgets/button.tsx'
import { Icon } from '../widgets/icon.tsx'
import { bytesText } from '../widgets/quantities.ts'
import type { StoredFile } from './file-body.ts'
import { kindOfName } from './file-kind.ts'
import { putOnStage, saveFile, workOf } from './files.ts'
import { thumbnails, wantThumbnail } from './thumbnails.ts'

/** A stored file and what can be done with it. */
export function FileRow({ file, onDelete }: { readonly file: StoredFile; readonly onDelete: () => void }) {
  const work = workOf(file.id)
  const { filename: name } = file
  return (
    <li class="file-row" aria-busy={work !== null}>
      <Thumbnail file={file} />
      <div class="file-text">
        <span class="file-name" title={name}>
          {name}
        </span>
        <span class="small-fact">{work ?? `${bytesText(file.bytes)} · ${dateText(file.created_at)}`}</span>
      </div>
      <div class="file-actions">
        {kindOfName(name) !== null && (
          <IconButton
            icon="image"
            label={`Put ${name} on the stage`}
            disabled={work !== null}
            onClick={() => void putOnStage(file)}
          />
        )}
        <IconButton
          icon="download"
          label={`Download ${name}`}
          disabled={work !== null}
          onClick={() => void saveFile(file)}
        />
        <IconButton icon="trash" label={`Delete ${name}`} disabled={work !== null} onClick={onDelete} />
      </div>
    </li>
  )
}

function Thumbnail({ file }: { readonly file: StoredFile }) {
  const box = useRef<HTMLSpanElement>(null)
  useEffect(() => {
    let forget = () => {}
    const observer = new IntersectionObserver(([entry]) => {
      forget()
      if (entry?.isIntersecting) forget = wantThumbnail(file)
    })
    observer.observe(box.current!)
    return () => {
      observer.disconnect()
      forget()
    }
  }, [file.id])
  const url = thumbnails.urls.value.get(file.id) ?? ''
  return (
    <span ref={box} class="file-thumb">
      {url === '' ? <Icon name={kindOfName(file.filename) ?? 'folder'} size={20} /> : <img src={url} alt="" />}
    </span>
  )
}

const today = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit' })
const earlier = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short', year: 'numeric' })

function dateText(seconds: number): string {
  const date = new Date(seconds * 1000)
  return date.toDateString() === new Date().toDateString() ? `today, ${today.format(date)}` : earlier.format(date)
}
