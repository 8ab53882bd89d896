import { signal } from '@preact/signals'
import type { LookAnswer } from '../../../../src/watches/question-value.ts'
import { probabilityIn } from '../../../../src/watches/question-value.ts'
import { callJson } from '../../server/call.ts'
import { type Failure, isAbort, toFailure } from '../../server/failure.ts'
import { type Wait, withPatience } from '../../server/patience.ts'
import { type Sample, withSample } from '../../widgets/history.ts'
import { chosen, pathOf } from '../watches.ts'
import type { FrameReply, Watch } from '../wire.ts'

/** The probability of each question, by its name; null where the look was unsure. */
export type Values = ReadonlyMap<string, number | null>

/** What the looks at the shown watch have answered. */
export const samples = signal<readonly Sample<Values>[]>([])
/** What became of the last frame, and how long that took. */
export const lastFrame = signal<(FrameReply & { readonly milliseconds: number }) | null>(null)
/** Whether this page sends frames. */
export const isPushing = signal(false)
/** Why no more frames are sent; null while they are. */
export const pushFailure = signal<Failure | null>(null)
export const pushWait = signal<Wait | null>(null)

const QUALITY = 0.85
/** Models see fewer pixels. */
const LONGEST_SIDE = 1280

export function forgetLooks(): void {
  samples.value = []
  lastFrame.value = null
  pushFailure.value = null
  pushWait.value = null
}

/** Adds what a look has answered. @param at when its frame was taken, by the clock of `performance.now` */
export function noteAnswers({ questions }: Watch, answers: readonly LookAnswer[], at: number): void {
  const state = new Map(
    questions.flatMap((question, index) => {
      const answer = answers[index]
      return answer === undefined ? [] : [[question.name, probabilityIn(question, answer)] as const]
    }),
  )
  samples.value = withSample(samples.value, { at, state })
}

/**
 * Sends what a video shows to a watch, one frame after the other, until it is stopped or fails for good. Nothing queues: a
 * frame is taken when the one before has its answers.
 * @param perSecond how many, at most.
 */
export async function pushFrames(
  id: string,
  video: HTMLVideoElement,
  perSecond: () => number,
  stop: AbortSignal,
): Promise<void> {
  pushFailure.value = null
  isPushing.value = true
  try {
    let due = performance.now()
    for (;;) {
      await until(due, stop)
      due = Math.max(due + 1000 / perSecond(), performance.now())
      if (video.readyState < HTMLMediaElement.HAVE_CURRENT_DATA || video.seeking || video.ended) continue
      await withPatience(
        () => pushOne(id, video, stop),
        (now) => {
          pushWait.value = now
        },
        stop,
      )
    }
  } catch (error) {
    if (!isAbort(error)) pushFailure.value = toFailure(error)
  } finally {
    // Another source may have followed.
    if (!stop.aborted) endPushing()
  }
}

export function endPushing(): void {
  isPushing.value = false
  pushWait.value = null
}

async function pushOne(id: string, video: HTMLVideoElement, signal: AbortSignal): Promise<void> {
  const at = performance.now()
  const headers = { 'x-frame-time': new Date().toISOString() }
  const body = await frameOf(video)
  const path = `${pathOf(id)}/frames?wait=true`
  const reply = await callJson<FrameReply>(path, { method: 'POST', body, headers, signal })
  const watch = chosen.peek()
  if (signal.aborted || watch?.id !== id) return
  lastFrame.value = { ...reply, milliseconds: performance.now() - at }
  if (reply.answers !== undefined) noteAnswers(watch, reply.answers, at)
}

function frameOf(video: HTMLVideoElement): Promise<Blob> {
  const { videoWidth, videoHeight } = video
  const scale = Math.min(1, LONGEST_SIDE / Math.max(videoWidth, videoHeight))
  const canvas = new OffscreenCanvas(Math.round(videoWidth * scale), Math.round(videoHeight * scale))
  canvas.getContext('2d')!.drawImage(video, 0, 0, canvas.width, canvas.height)
  return canvas.convertToBlob({ type: 'image/jpeg', quality: QUALITY })
}

function until(due: number, stop: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const abort = () => reject(new DOMException('Aborted', 'AbortError'))
    if (stop.aborted) return abort()
    setTimeout(
      () => {
        stop.removeEventListener('abort', abort)
        resolve()
      },
      Math.max(0, due - performance.now()),
    )
    stop.addEventListener('abort', abort, { once: true })
  })
}
