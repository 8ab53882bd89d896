import { computed, signal } from '@preact/signals'
import { csvLine } from '../../../src/exports/csv.ts'
import { toCvat } from '../../../src/exports/cvat.ts'
import { toMot } from '../../../src/exports/mot.ts'
import type { TrackedClip } from '../../../src/exports/tracked-clip.ts'
import type { Mark } from '../marks/mark.ts'
import type { Attachment } from '../media/attachment.ts'
import { selected } from '../media/attachments.ts'
import { newId } from '../new-id.ts'

/** An object in one frame, in pixels of the frame. */
export interface Sighting {
  readonly id: string
  readonly label: string
  /** The same one for an object in all frames, from 1. */
  readonly track: number
  readonly seconds: number
  readonly left: number
  readonly top: number
  readonly right: number
  readonly bottom: number
}

/** What was followed through a video. */
export interface Tracked {
  /** In the order of the frames. */
  readonly sightings: readonly Sighting[]
  /** Times of the frames that were searched, in seconds. */
  readonly times: readonly number[]
  /** Whether an answer was truncated. */
  readonly isCut: boolean
  readonly milliseconds: number
}

export interface TracksResponse {
  readonly detections: readonly {
    readonly mention: string
    readonly track: number
    readonly timestamp: number
    readonly point_box: Record<'top_left' | 'bottom_right', { readonly x: number; readonly y: number }>
  }[]
  readonly timestamps: readonly number[]
  readonly frames_left?: number
  readonly state: string
  readonly finish_reason: string
}

/** By the ids of the attachments. */
export const tracked = signal<ReadonlyMap<string, Tracked>>(new Map())

/** The video on the stage. */
export const shownVideo = computed<Attachment | null>(() => (selected.value?.kind === 'video' ? selected.value : null))

/** Follows objects to the end of a video: the server may leave frames out, for the next request. */
export async function follow(
  { id }: Attachment,
  ask: (state: string | null) => Promise<TracksResponse>,
): Promise<void> {
  const started = performance.now()
  let sightings: readonly Sighting[] = []
  let times: readonly number[] = []
  for (let state: string | null = null; ; ) {
    const reply: TracksResponse = await ask(state)
    sightings = [...sightings, ...reply.detections.map(toSighting)]
    times = [...times, ...reply.timestamps]
    const left = reply.frames_left ?? 0
    const isCut = left === 0 && reply.finish_reason !== 'complete'
    const milliseconds = performance.now() - started
    tracked.value = new Map(tracked.value).set(id, { sightings, times, isCut, milliseconds })
    if (left === 0 || reply.timestamps.length === 0) return
    state = reply.state
  }
}

function toSighting({
  mention: label,
  track,
  timestamp: seconds,
  point_box: box,
}: TracksResponse['detections'][0]): Sighting {
  const { top_left: from, bottom_right: to } = box
  return { id: newId(), label, track, seconds, left: from.x, top: from.y, right: to.x, bottom: to.y }
}

/** `person 2`: what a track is called, by which it has a colour and a lane. */
export function nameOf({ label, track }: Sighting): string {
  return `${label} ${track}`
}

/** A box is seen this long before its frame at most: boxes of videos that move are best seen around their frames. */
const MOST_LEAD_S = 0.25
/** Times are rounded to milliseconds, so a frame may begin a little later than its time. */
const INTO_FRAME_S = 0.001

export const trackMarks = computed<readonly Mark[]>(() => {
  const video = shownVideo.value
  const found = video && tracked.value.get(video.id)
  if (!found) return []
  const { times, sightings } = found
  // A box is seen until those of the next frame that was searched are; frames of a slow video are far apart.
  const starts = times.map((time, index) => time - Math.min(MOST_LEAD_S, (time - (times[index - 1] ?? time)) / 2))
  const spans = new Map(
    times.map((time, index) => [time, [starts[index]!, starts[index + 1] ?? Number.POSITIVE_INFINITY] as const]),
  )
  return sightings.map((sighting): Mark => {
    const { id, seconds, left, top, right, bottom } = sighting
    const points = [
      { x: left / video.width, y: top / video.height },
      { x: right / video.width, y: bottom / video.height },
    ]
    const time = seconds + INTO_FRAME_S
    return { id, media: video.id, label: nameOf(sighting), kind: 'box', points, time, shown: spans.get(seconds)! }
  })
})

export const TRACK_EXPORTS = [
  { title: 'MOT', ending: 'txt', toText: (found: Tracked, video: Attachment) => toMot(toClip(found, video)) },
  { title: 'CVAT', ending: 'xml', toText: (found: Tracked, video: Attachment) => toCvat(toClip(found, video)) },
  { title: 'CSV', ending: 'csv', toText: toCsv },
] as const

/** Frames count as they were searched, in turn. */
function toClip({ sightings, times }: Tracked, { width, height }: Attachment): TrackedClip {
  const boxes = sightings.map((sighting) => ({ ...sighting, frame: times.indexOf(sighting.seconds) }))
  return { boxes, frames: times.map((_, index) => index), size: { width, height } }
}

/** As `lookout detect --tracks --format csv` writes it. */
function toCsv({ sightings }: Tracked): string {
  const head = ['seconds', 'track', 'label', 'left', 'top', 'right', 'bottom']
  const rows = sightings.map(({ seconds, track, label, left, top, right, bottom }) => {
    return [seconds, track, label, left, top, right, bottom].map(String)
  })
  return [head, ...rows].map(csvLine).join('')
}
