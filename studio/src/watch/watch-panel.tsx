import { signal, useSignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { key } from '../server/connection.ts'
import { may } from '../server-status/status.ts'
import { Button } from '../widgets/button.tsx'
import { ConfirmDialog } from '../widgets/dialogs/confirm-dialog.tsx'
import { FailureNotice } from '../widgets/notices/failure-notice.tsx'
import { ScopeNotice } from '../widgets/notices/scope-notice.tsx'
import { counted } from '../widgets/quantities.ts'
import { followEvents } from './events/event-feed.ts'
import { EventList } from './events/event-list.tsx'
import { LiveSection } from './live-section.tsx'
import { leaveRegion } from './region.ts'
import { faultText } from './source/camera-faults.ts'
import { CameraSection } from './source/camera-section.tsx'
import { forgetLooks, isPushing, noteAnswers } from './source/pushing.ts'
import { WatchForm } from './watch-form.tsx'
import {
  chosen,
  chosenId,
  deleteWatch,
  droppedOf,
  hasMore,
  isMaking,
  isNew,
  keepWatchesFresh,
  pauseWatch,
  titleOf,
  watches,
  watchesFailure,
} from './watches.ts'
import type { Watch } from './wire.ts'

/** The watch that the user is about to delete. */
const doomed = signal<Watch | null>(null)

/** The watches of the organisation, and what the chosen one sees and has told. */
export function WatchPanel() {
  const mayWatch = may('watch')
  const given = key.value
  useEffect(() => (given !== null && mayWatch !== false ? keepWatchesFresh() : undefined), [given, mayWatch === false])
  if (mayWatch === false) {
    return (
      <div class="panel-body">
        <ScopeNotice scopes="inference,files,watch" title="This key may not use watches: it lacks the scope “watch”.">
          To create a key that may, run
        </ScopeNotice>
      </div>
    )
  }
  const failed = watchesFailure.value
  const all = watches.value
  const watch = chosen.value
  return (
    <div class="panel-body watch-page">
      {failed && <FailureNotice failure={failed.failure} onRetry={failed.retry} />}
      {all === null ? (
        failed === null && <p class="empty">Loading…</p>
      ) : (
        <>
          {all.length > 0 && <WatchList watches={all} />}
          <div class="watch-main">
            {isMaking.value || watch === null ? <WatchForm /> : <WatchView key={watch.id} watch={watch} />}
          </div>
        </>
      )}
      {doomed.value !== null && (
        <ConfirmDialog
          title="Delete this watch?"
          action="Delete it"
          onConfirm={() => void deleteWatch(doomed.value!)}
          onClose={() => {
            doomed.value = null
          }}
        >
          <p>“{titleOf(doomed.value)}” goes with its events and their pictures, for all of your organisation.</p>
        </ConfirmDialog>
      )}
    </div>
  )
}

function WatchList({ watches }: { readonly watches: readonly Watch[] }) {
  const shown = isMaking.value ? null : chosen.value?.id
  return (
    <nav class="watch-list" aria-label="Watches">
      <Button
        icon="plus"
        pressed={isMaking.value}
        onClick={() => {
          isMaking.value = !isMaking.value
        }}
      >
        New watch
      </Button>
      <ul>
        {watches.map((watch) => (
          <li key={watch.id}>
            <button
              type="button"
              class="watch-item"
              aria-current={watch.id === shown ? 'true' : undefined}
              onClick={() => {
                chosenId.value = watch.id
                isMaking.value = false
              }}
            >
              <span class="watch-name">{titleOf(watch)}</span>
              <State watch={watch} />
              <span class="small-fact">{counted(watch.questions.length, 'question')}</span>
              <span class="small-fact">{counted(watch.counts?.looks ?? 0, 'look')}</span>
            </button>
          </li>
        ))}
      </ul>
      {hasMore.value && <p class="small-fact">Older watches are not listed.</p>}
    </nav>
  )
}

/** A watch: how it goes, its frames and its events. */
function WatchView({ watch }: { readonly watch: Watch }) {
  const tries = useSignal(0)
  const heading = useRef<HTMLHeadingElement>(null)
  useEffect(() => {
    // The form that had the focus is gone.
    if (isNew.peek()) heading.current!.focus()
    isNew.value = false
  }, [])
  useEffect(() => {
    forgetLooks()
    return leaveRegion
  }, [watch.id])
  useEffect(() => {
    return followEvents(watch.id, watch.last_seq, ({ answers }) => {
      const known = chosen.peek()
      if (!isPushing.peek() && known?.id === watch.id) noteAnswers(known, answers, performance.now())
    })
  }, [watch.id, tries.value])
  return (
    <>
      <div class="watch-head">
        <h2 ref={heading} tabIndex={-1}>
          {titleOf(watch)}
        </h2>
        <State watch={watch} />
        <div class="watch-actions">
          <Button
            icon={watch.status === 'paused' ? 'play' : 'pause'}
            onClick={() => void pauseWatch(watch, watch.status !== 'paused')}
          >
            {watch.status === 'paused' ? 'Resume' : 'Pause'}
          </Button>
          <Button
            icon="trash"
            onClick={() => {
              doomed.value = watch
            }}
          >
            Delete
          </Button>
        </div>
      </div>
      <p class="small-fact watch-counts">{countsText(watch)}</p>
      <Reason watch={watch} />
      {watch.source.type === 'push' ? <LiveSection watch={watch} /> : <CameraSection watch={watch} />}
      <EventList
        watch={watch}
        onRetry={() => {
          tries.value++
        }}
      />
    </>
  )
}

const STATES = {
  starting: 'No frames yet',
  running: 'Online',
  paused: 'Paused',
  offline: 'Offline',
  waiting: 'Waiting',
} as const

function State({ watch: { status } }: { readonly watch: Watch }) {
  const tone = status === 'running' ? 'ready' : status === 'offline' || status === 'waiting' ? 'restarting' : ''
  return <span class={`state ${tone}`}>{STATES[status]}</span>
}

/** Why a watch does not look. That clients push no frames, its state says. */
function Reason({ watch: { status, reason } }: { readonly watch: Watch }) {
  const fault = faultText(reason)
  if (fault === null && (status !== 'waiting' || reason === null)) return null
  return <p class="watch-reason">{fault === null ? reason : `No frames: ${fault} (${reason}).`}</p>
}

function countsText(watch: Watch): string {
  const { counts, model } = watch
  if (counts === null) return model
  const { looks, dropped, failed } = counts
  return [
    model,
    counted(looks, 'look'),
    `${dropped.still} still`,
    `${droppedOf(watch)} dropped`,
    ...(failed > 0 ? [`${failed} failed`] : []),
  ].join(' · ')
}
