import { useSignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { PictureShelf } from '../../files/thumbnails.ts'
import type { Mark } from '../../marks/mark.ts'
import { callBlob } from '../../server/call.ts'
import { type Failure, isAbort, toFailure } from '../../server/failure.ts'
import { MarkedPicture } from '../../stage/marked-picture.tsx'
import { Button } from '../../widgets/button.tsx'
import { Dialog } from '../../widgets/dialogs/dialog.tsx'
import { Icon } from '../../widgets/icon.tsx'
import { FailureNotice } from '../../widgets/notices/failure-notice.tsx'
import { chanceText, durationText } from '../../widgets/quantities.ts'
import { timeText } from '../time.ts'
import { pathOf } from '../watches.ts'
import type { Watch } from '../wire.ts'
import { feedFailure, hasEarlier, rows, showEarlier } from './event-feed.ts'
import type { EventRow, HappeningRow } from './event-rows.ts'

/** First frames of events; large enough for a dialog. */
const pictures = new PictureShelf(480)

/** What the watch has told, newest first. */
export function EventList({ watch, onRetry }: { readonly watch: Watch; readonly onRetry: () => void }) {
  const failure = useSignal<Failure | null>(null)
  const isAsking = useSignal(false)
  const all = rows.value
  const earlier = async () => {
    isAsking.value = true
    failure.value = null
    await showEarlier(watch.id).catch((error: unknown) => {
      failure.value = toFailure(error)
    })
    isAsking.value = false
  }
  return (
    <section class="watch-events" aria-labelledby="watch-events">
      <h3 id="watch-events">Events</h3>
      {feedFailure.value && <FailureNotice failure={feedFailure.value} onRetry={onRetry} />}
      {all.length === 0 && (
        <p class="empty">No events yet. One starts when a question has been likely for long enough.</p>
      )}
      <p class="hidden" aria-live="polite">
        {all[0] && spokenText(all[0])}
      </p>
      <ol class="watch-event-list" aria-label="Events">
        {all.map((row) =>
          row.kind === 'note' ? (
            <li key={row.id} class="watch-note small-fact">
              {timeText(row.at)} · {row.text}
            </li>
          ) : (
            <HappeningItem key={row.id} row={row} watch={watch} />
          ),
        )}
      </ol>
      {failure.value && <FailureNotice failure={failure.value} onRetry={() => void earlier()} />}
      {hasEarlier.value && (
        <Button kind="quiet" disabled={isAsking.value} onClick={() => void earlier()}>
          Show earlier events
        </Button>
      )}
    </section>
  )
}

function spokenText(row: EventRow): string {
  if (row.kind === 'note') return row.text
  return `${row.endedAt === null ? 'Started' : 'Ended'}: ${row.question}`
}

function HappeningItem({ row, watch }: { readonly row: HappeningRow; readonly watch: Watch }) {
  const { question, startedAt, endedAt, peak } = row
  const facts = [
    `started ${timeText(startedAt)}`,
    ...(endedAt === null
      ? []
      : [`ended ${timeText(endedAt)}`, durationText((endedAt.getTime() - startedAt.getTime()) / 1000)]),
    ...(REASONS[row.reason ?? ''] ?? []),
    ...(row.gaps > 0 ? ['not seen all the time'] : []),
    ...(row.clip === 'pending' ? ['its video is being made'] : []),
    ...(row.clip === 'unavailable' ? ['no video'] : []),
  ]
  return (
    <li class={`watch-event ${endedAt === null ? 'on' : ''}`}>
      <EventPicture row={row} label={labelOf(row, watch)} watch={watch} />
      <div class="watch-event-text">
        <span class="watch-event-question">{question}</span>
        <span class="watch-event-chance">
          {endedAt === null && <span class="state ready">On</span>} {chanceText(peak)}
        </span>
        <span class="small-fact">{facts.join(' · ')}</span>
        {row.clip === 'available' && <ClipButton row={row} watch={watch} />}
      </div>
    </li>
  )
}

/** Opens the video of an event. */
function ClipButton({ row: { question, seq, startedAt }, watch }: Pick<PictureProps, 'row' | 'watch'>) {
  const isOpen = useSignal(false)
  return (
    <>
      <Button
        icon="play"
        kind="quiet"
        title={`Play the video of: ${question}`}
        onClick={() => {
          isOpen.value = true
        }}
      >
        Video
      </Button>
      {isOpen.value && (
        <Dialog
          title={question}
          class="watch-picture-dialog"
          onClose={() => {
            isOpen.value = false
          }}
        >
          <Clip path={`${pathOf(watch.id)}/events/${seq}/clip`} label={`The video of: ${question}`} />
          <p class="small-fact">{timeText(startedAt)}</p>
        </Dialog>
      )}
    </>
  )
}

function Clip({ path, label }: { readonly path: string; readonly label: string }) {
  const url = useSignal<string | null>(null)
  const failure = useSignal<Failure | null>(null)
  const tries = useSignal(0)
  useEffect(() => {
    const stop = new AbortController()
    failure.value = null
    callBlob(path, { signal: stop.signal }).then(
      (blob) => {
        if (!stop.signal.aborted) url.value = URL.createObjectURL(blob)
      },
      (error: unknown) => {
        if (!isAbort(error)) failure.value = toFailure(error)
      },
    )
    return () => {
      stop.abort()
      if (url.peek() !== null) URL.revokeObjectURL(url.peek()!)
    }
  }, [path, tries.value])
  if (failure.value !== null) return <FailureNotice failure={failure.value} onRetry={() => tries.value++} />
  if (url.value === null) return <p class="empty">Loading…</p>
  return <video class="watch-clip" src={url.value} aria-label={label} controls autoplay muted playsInline />
}

const REASONS: Readonly<Record<string, readonly string[]>> = {
  gap: ['gone after a time in which nothing was seen'],
  changed: ['the question was changed'],
  deleted: ['the watch was deleted'],
}

/** What is in the box; without that, the question. */
function labelOf({ question }: HappeningRow, { questions }: Watch): string {
  return questions.find(({ name }) => name === question)?.evidence?.instructions ?? question
}

interface PictureProps {
  readonly row: HappeningRow
  readonly label: string
  readonly watch: Watch
}

/** The first frame of an event, with the box of what it is about. A click enlarges it. */
function EventPicture({ row, label, watch }: PictureProps) {
  const { frame, box, id, seq } = row
  const place = useRef<HTMLDivElement>(null)
  const isLarge = useSignal(false)
  const fileId = frame?.fileId
  const path = pathOf(watch.id)
  useEffect(() => {
    if (fileId === undefined) return
    let forget = () => {}
    const observer = new IntersectionObserver(([entry]) => {
      forget()
      if (entry?.isIntersecting) forget = pictures.want(fileId, `${path}/events/${seq}/frame`)
    })
    observer.observe(place.current!)
    return () => {
      observer.disconnect()
      forget()
    }
  }, [fileId, path, seq])
  const url = fileId === undefined ? '' : (pictures.urls.value.get(fileId) ?? '')
  const marks = (isLit: boolean): readonly Mark[] => {
    if (!box) return []
    const points = [
      { x: box.left, y: box.top },
      { x: box.right, y: box.bottom },
    ]
    return [{ id: `${isLit ? 'large ' : ''}${id}`, media: id, label, kind: 'box', points }]
  }
  const alt = `The first frame of: ${row.question}`
  return (
    <div ref={place} class="watch-event-picture">
      {frame === null || url === '' ? (
        <Icon name="image" size={20} />
      ) : (
        <>
          <button
            type="button"
            aria-label={`Enlarge the first frame of: ${row.question}`}
            onClick={() => {
              isLarge.value = true
            }}
          >
            <MarkedPicture url={url} alt={alt} size={frame} marks={marks(false)} />
          </button>
          {isLarge.value && (
            <Dialog
              title={row.question}
              class="watch-picture-dialog"
              onClose={() => {
                isLarge.value = false
              }}
            >
              <MarkedPicture url={url} alt={alt} size={frame} marks={marks(true)} />
              <p class="small-fact">{timeText(row.startedAt)}</p>
            </Dialog>
          )}
        </>
      )}
    </div>
  )
}
