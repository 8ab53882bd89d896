import { type Signal, useSignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { whyUnread } from '../media/attachment.ts'
import { openCamera, sentenceFor } from '../media/camera.ts'
import { Button } from '../widgets/button.tsx'
import { CheckField } from '../widgets/fields/field.tsx'
import { FailureNotice } from '../widgets/notices/failure-notice.tsx'
import { Notice } from '../widgets/notices/notice.tsx'
import { WaitNotice } from '../widgets/notices/wait-notice.tsx'
import { millisecondsText } from '../widgets/quantities.ts'
import { QuestionCharts } from './events/question-charts.tsx'
import { NewestFrame } from './newest-frame.tsx'
import { RegionFields } from './region-fields.tsx'
import { RegionFrame } from './region-frame.tsx'
import { endPushing, lastFrame, pushFailure, pushFrames, pushWait } from './source/pushing.ts'
import { nextSource, type Source, sampleSource } from './source/source.ts'
import type { Dropped, Watch } from './wire.ts'

/** Frames per second that can be chosen; a watch that looks less often drops the others. */
const RATES = [0.2, 0.5, 1, 2, 5, 10]
const USUAL_RATE = 1

/** Sends frames to the watch, and shows what it sees in them. */
export function LiveSection({ watch }: { readonly watch: Watch }) {
  const source = useSignal<Source | null>(null)
  const problem = useSignal<string | null>(null)
  const rates = [...RATES.filter((rate) => rate < watch.fps), watch.fps]
  const rate = useSignal(rates.includes(USUAL_RATE) ? USUAL_RATE : watch.fps)
  const starts = useSignal(0)
  const start = async (chosen: Source | 'sample') => {
    problem.value = null
    try {
      source.value = chosen === 'sample' ? await sampleSource() : chosen
      starts.value++
    } catch (error) {
      problem.value = (error as Error).message
    }
  }
  const isPaused = watch.status === 'paused'
  useEffect(() => {
    if (isPaused) source.value = null
  }, [isPaused])
  const wanted = nextSource.value
  useEffect(() => {
    if (wanted === null) return
    nextSource.value = null
    // The sample is short: it is looked at as often as the watch can.
    if (wanted === 'sample') rate.value = watch.fps
    void start(wanted)
  }, [wanted])
  return (
    <section class="watch-live" aria-label="Live">
      <div class="watch-source">
        {source.value === null ? (
          <NewestFrame watch={watch} />
        ) : (
          <LiveFrame
            key={starts.value}
            watch={watch}
            source={source.value}
            rate={rate}
            problem={problem}
            onStop={() => {
              source.value = null
            }}
          />
        )}
        {problem.value !== null && <Notice tone="error">{problem.value}</Notice>}
        <RegionFields watch={watch} />
        <div class="watch-actions">
          <SourceButtons source={source} disabled={isPaused} onStart={(chosen) => void start(chosen)} />
          <label class="watch-rate">
            <select
              value={rate.value}
              onChange={(event) => {
                rate.value = Number(event.currentTarget.value)
              }}
            >
              {rates.map((one) => (
                <option key={one} value={one}>
                  {one < 1 ? `one in ${Math.round(10 / one) / 10} s` : `${one} per second`}
                </option>
              ))}
            </select>
            frames
          </label>
        </div>
      </div>
      <QuestionCharts watch={watch} />
    </section>
  )
}

interface SourceButtonsProps {
  readonly source: Signal<Source | null>
  readonly disabled: boolean
  onStart(source: Source | 'sample'): void
}

function SourceButtons({ source, disabled, onStart }: SourceButtonsProps) {
  const input = useRef<HTMLInputElement>(null)
  if (source.value !== null) {
    return (
      <Button
        icon="stop"
        onClick={() => {
          source.value = null
        }}
      >
        Stop
      </Button>
    )
  }
  return (
    <>
      <Button
        kind="primary"
        icon="camera"
        disabled={disabled}
        onClick={() => onStart({ kind: 'camera', deviceId: '' })}
      >
        Use the camera
      </Button>
      <input
        ref={input}
        type="file"
        class="hidden"
        accept="video/*"
        aria-label="Video to push"
        tabIndex={-1}
        onChange={({ currentTarget }) => {
          const [file] = currentTarget.files ?? []
          currentTarget.value = ''
          if (file) onStart({ kind: 'video', name: file.name, blob: file, repeats: false })
        }}
      />
      <Button icon="video" disabled={disabled} onClick={() => input.current?.click()}>
        Choose a video
      </Button>
      <Button icon="play" disabled={disabled} onClick={() => onStart('sample')}>
        Sample
      </Button>
    </>
  )
}

interface LiveFrameProps {
  readonly watch: Watch
  readonly source: Source
  readonly rate: Signal<number>
  readonly problem: Signal<string | null>
  onStop(): void
}

/** What the source shows now. Its frames go to the watch for as long as this is on the page. */
function LiveFrame({ watch, source, rate, problem, onStop }: LiveFrameProps) {
  const { id } = watch
  const view = useRef<HTMLVideoElement>(null)
  const repeats = useSignal(source.kind === 'video' && source.repeats)
  const cameras = useSignal<readonly MediaDeviceInfo[]>([])
  /** Empty for the browser's choice. */
  const camera = useSignal(source.kind === 'camera' ? source.deviceId : '')
  const hasEnded = useSignal(false)
  const tries = useSignal(0)
  useEffect(() => {
    const stop = new AbortController()
    const video = view.current!
    problem.value = null
    const opening =
      source.kind === 'camera' ? showCamera(video, camera.value, stop.signal) : showVideo(video, source, stop.signal)
    opening.then(
      async () => {
        if (stop.signal.aborted) return
        // Not by the attribute: browsers pause such videos while they are out of view.
        void video.play().catch(() => {})
        void pushFrames(id, video, () => rate.value, stop.signal)
        if (source.kind === 'camera') cameras.value = await camerasOf()
      },
      (error: unknown) => {
        if (!stop.signal.aborted) problem.value = (error as Error).message
      },
    )
    return () => {
      stop.abort()
      endPushing()
    }
  }, [camera.value, tries.value])
  return (
    <>
      <RegionFrame watch={watch}>
        <video
          ref={view}
          class="watch-view"
          aria-label={source.kind === 'camera' ? 'What the camera sees' : source.name}
          muted
          playsInline
          controls={source.kind === 'video'}
          loop={repeats.value}
          onEnded={() => {
            hasEnded.value = true
          }}
          onPlay={() => {
            hasEnded.value = false
          }}
        />
      </RegionFrame>
      <FrameNote hasEnded={hasEnded.value} onStop={onStop} />
      {pushFailure.value && (
        <FailureNotice
          failure={pushFailure.value}
          onRetry={() => {
            tries.value++
          }}
        />
      )}
      {cameras.value.length > 1 && (
        <select
          aria-label="Camera"
          value={camera.value}
          onChange={(event) => {
            camera.value = event.currentTarget.value
          }}
        >
          {cameras.value.map(({ deviceId, label }, index) => (
            <option key={deviceId} value={deviceId}>
              {label || `Camera ${index + 1}`}
            </option>
          ))}
        </select>
      )}
      {source.kind === 'video' && (
        <CheckField
          label="Repeat the video"
          checked={repeats.value}
          onChange={(checked) => {
            repeats.value = checked
            if (checked && view.current!.ended) void view.current!.play()
          }}
        />
      )}
    </>
  )
}

const DROPPED: Readonly<Record<Dropped, string>> = {
  still: 'nothing has moved',
  rate: 'not looked at: too early',
  busy: 'not looked at: busy',
  late: 'not looked at: the model was busy',
}

/** What became of the last frame. */
function FrameNote({ hasEnded, onStop }: { readonly hasEnded: boolean; readonly onStop: () => void }) {
  const wait = pushWait.value
  if (wait !== null) return <WaitNotice wait={wait} onCancel={onStop} />
  if (hasEnded) return <p class="small-fact">The video has ended. Play it again, or stop.</p>
  const last = lastFrame.value
  if (last === null) return <p class="small-fact">Waiting for the first look…</p>
  const what =
    last.dropped === undefined ? `looked at in ${millisecondsText(last.milliseconds)}` : DROPPED[last.dropped]
  return (
    <p class="small-fact">
      Frame {last.frame}: {what}
    </p>
  )
}

/** @throws Error with a sentence for the user */
async function showCamera(video: HTMLVideoElement, deviceId: string, stop: AbortSignal): Promise<void> {
  const stream = await openCamera(deviceId, stop).catch((error: unknown) => {
    throw new Error(sentenceFor(error))
  })
  if (stream === null) return
  video.srcObject = stream
  stop.addEventListener('abort', () => {
    video.srcObject = null
  })
}

/** Only once a camera may be used, their names are known. */
async function camerasOf(): Promise<readonly MediaDeviceInfo[]> {
  const devices = await navigator.mediaDevices.enumerateDevices()
  return devices.filter(({ kind }) => kind === 'videoinput')
}

/** @throws Error with a sentence for the user */
async function showVideo(
  video: HTMLVideoElement,
  { name, blob }: Extract<Source, { kind: 'video' }>,
  stop: AbortSignal,
): Promise<void> {
  const url = URL.createObjectURL(blob)
  stop.addEventListener('abort', () => URL.revokeObjectURL(url))
  await new Promise<void>((resolve, reject) => {
    video.onloadeddata = () => resolve()
    video.onerror = () => void whyUnread(new Error(`This browser cannot play ${name}.`), { name, blob }).then(reject)
    video.src = url
  })
}
