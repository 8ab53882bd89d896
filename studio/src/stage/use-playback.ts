import { useSignalEffect } from '@preact/signals'
import type { RefObject } from 'preact'
import { useLayoutEffect, useMemo } from 'preact/hooks'
import { type Clip, chosenMark, type Mark } from '../marks/mark.ts'
import type { Attachment } from '../media/attachment.ts'
import { Playback } from './playback.ts'

interface Found {
  readonly clips: readonly Clip[]
  readonly marks: readonly Mark[]
}

/** The playback of an element, which goes to a clip or a moment when that is chosen, here or in the text. */
export function usePlayback(
  media: Attachment,
  element: RefObject<HTMLMediaElement | null>,
  { clips, marks }: Found,
): Playback {
  const playback = useMemo(() => new Playback(media.duration), [media.id])
  useLayoutEffect(() => playback.attach(element.current!), [playback])
  useSignalEffect(() => {
    const id = chosenMark.value
    if (id === null) return
    const time = clips.find((clip) => clip.id === id)?.start ?? marks.find((mark) => mark.id === id)?.time
    if (time !== undefined && time !== playback.time.peek()) playback.seek(time)
  })
  return playback
}
