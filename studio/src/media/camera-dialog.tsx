import { useSignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { Button } from '../widgets/button.tsx'
import { useModal } from '../widgets/modal.ts'
import { Notice } from '../widgets/notice.tsx'
import { bring } from './attachments.ts'

const QUALITY = 0.92
let taken = 0

/** Shows what a camera sees, and takes pictures of it. The camera is let go when the dialog closes. */
export function CameraDialog({ onClose }: { readonly onClose: () => void }) {
  const dialog = useModal()
  const view = useRef<HTMLVideoElement>(null)
  const cameras = useSignal<readonly MediaDeviceInfo[]>([])
  /** Empty for the browser's choice. */
  const chosen = useSignal('')
  const problem = useSignal<string | null>(null)
  const isLive = useSignal(false)
  const camera = chosen.value
  useEffect(() => {
    const gone = new AbortController()
    isLive.value = false
    problem.value = null
    openCamera(camera, gone.signal).then(
      async (stream) => {
        if (stream === null) return
        view.current!.srcObject = stream
        // Only once the camera may be used, their names are known.
        const devices = await navigator.mediaDevices.enumerateDevices()
        cameras.value = devices.filter(({ kind }) => kind === 'videoinput')
      },
      (error: unknown) => {
        problem.value = sentenceFor(error)
      },
    )
    return () => gone.abort()
  }, [camera])
  const take = async () => {
    const blob = await pictureOf(view.current!)
    dialog.current?.close()
    await bring([{ blob, name: `camera-${++taken}.jpg` }])
  }
  return (
    <dialog ref={dialog} class="camera-dialog" aria-labelledby="camera-title" onClose={onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault()
          if (isLive.value) void take()
        }}
      >
        <h2 id="camera-title">Take a picture</h2>
        {problem.value === null ? (
          <video
            ref={view}
            class="camera-view"
            aria-label="What the camera sees"
            autoplay
            muted
            playsInline
            onPlaying={() => {
              isLive.value = true
            }}
          />
        ) : (
          <Notice tone="error">{problem.value}</Notice>
        )}
        {cameras.value.length > 1 && (
          <select
            aria-label="Camera"
            value={camera}
            onChange={(event) => {
              chosen.value = event.currentTarget.value
            }}
          >
            {cameras.value.map(({ deviceId, label }, index) => (
              <option key={deviceId} value={deviceId}>
                {label || `Camera ${index + 1}`}
              </option>
            ))}
          </select>
        )}
        <div class="dialog-actions">
          <Button onClick={() => dialog.current?.close()}>Cancel</Button>
          <Button kind="primary" type="submit" icon="camera" disabled={!isLive.value}>
            Take a picture
          </Button>
        </div>
      </form>
    </dialog>
  )
}

/** @returns null when the dialog was closed meanwhile. @throws DOMException; TypeError where pages may not ask */
async function openCamera(deviceId: string, gone: AbortSignal): Promise<MediaStream | null> {
  const wanted = { width: { ideal: 1920 }, height: { ideal: 1080 } }
  const video = deviceId === '' ? wanted : { ...wanted, deviceId: { exact: deviceId } }
  const stream = await navigator.mediaDevices.getUserMedia({ video })
  const stop = () => {
    for (const track of stream.getTracks()) track.stop()
  }
  if (gone.aborted) {
    stop()
    return null
  }
  gone.addEventListener('abort', stop, { once: true })
  return stream
}

function pictureOf(view: HTMLVideoElement): Promise<Blob> {
  const canvas = new OffscreenCanvas(view.videoWidth, view.videoHeight)
  canvas.getContext('2d')!.drawImage(view, 0, 0)
  return canvas.convertToBlob({ type: 'image/jpeg', quality: QUALITY })
}

const SENTENCES: Readonly<Record<string, string>> = {
  NotAllowedError: 'The browser blocks the camera for this page. Allow it in the address bar, then try again.',
  NotFoundError: 'No camera was found.',
  OverconstrainedError: 'This camera is no longer connected.',
  NotReadableError: 'Another program is using the camera.',
  // Without TLS, browsers hide all cameras from pages of other machines.
  TypeError: 'Browsers allow the camera only on pages that are served over HTTPS or from this machine.',
}

function sentenceFor(error: unknown): string {
  return SENTENCES[(error as Error).name] ?? `The camera does not work: ${(error as Error).message}`
}
