import { useSignal, useSignalEffect } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { callBlob } from '../server/call.ts'
import { Icon } from '../widgets/icon.tsx'
import { RegionFrame } from './region-frame.tsx'
import { samples } from './source/pushing.ts'
import { pathOf } from './watches.ts'
import type { Watch } from './wire.ts'

/** Shows the newest frame of a camera; else the one that was looked at last, by any client. */
export function NewestFrame({ watch }: { readonly watch: Watch }) {
  const { id, counts, source } = watch
  const url = useSignal<string | null>(null)
  const isAsking = useSignal(false)
  // One that is paused has none, though looks before were shown.
  const hasFrame = counts !== null && counts.looks > 0
  const isCamera = source.type !== 'push'
  // The frames of a camera are there also while looks fail.
  const frames = isCamera ? (counts?.frames ?? 0) : 0
  const ask = async () => {
    if (isAsking.peek() || !(hasFrame || frames > 0)) return
    isAsking.value = true
    // One that was too large is not kept.
    const blob = await callBlob(`${pathOf(id)}/frame`).catch(() => null)
    isAsking.value = false
    if (blob === null) return
    if (url.peek() !== null) URL.revokeObjectURL(url.peek()!)
    url.value = URL.createObjectURL(blob)
  }
  useEffect(() => void ask(), [hasFrame, frames])
  useSignalEffect(() => {
    if (samples.value.length > 0) void ask()
  })
  useEffect(
    () => () => {
      if (url.peek() !== null) URL.revokeObjectURL(url.peek()!)
    },
    [],
  )
  if (url.value !== null) {
    return (
      <RegionFrame watch={watch}>
        <img class="watch-view" src={url.value} alt="The newest frame" />
      </RegionFrame>
    )
  }
  return (
    <div class="watch-view watch-no-view">
      <Icon name="watch" size={32} />
      <p>{isCamera ? 'No frame yet.' : 'No frame yet. Use the camera of this computer, or a video.'}</p>
    </div>
  )
}
