import { useSignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { Button } from '../widgets/button.tsx'
import { useModal } from '../widgets/dialogs/modal.ts'
import { Notice } from '../widgets/notices/notice.tsx'
import { bring } from './attachments.ts'
import { openCamera, sentenceFor } from './camera.ts'

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

function pictureOf(view: HTMLVideoElement): Promise<Blob> {
  const canvas = new OffscreenCanvas(view.videoWidth, view.videoHeight)
  canvas.getContext('2d')!.drawImage(view, 0, 0)
  return canvas.convertToBlob({ type: 'image/jpeg', quality: QUALITY })
}
