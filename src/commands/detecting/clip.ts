import { dirname, resolve } from 'node:path'
import type { Detections } from '../../client/answers.ts'
import type { LookoutClient } from '../../client/client.ts'
import { ConfigError } from '../../config/config.ts'
import { csvLine } from '../../exports/csv.ts'
import { toCvat } from '../../exports/cvat.ts'
import { toMot } from '../../exports/mot.ts'
import type { TrackedClip } from '../../exports/tracked-clip.ts'
import { type Medium, openMedium, sendMedia } from '../asking/media.ts'
import { note, print } from '../asking/screen.ts'
import { checkWritable, keepOriginals, writeWhole } from '../asking/targets.ts'
import { anyOf, readChoice } from '../options.ts'
import { toTable } from '../output.ts'

/** Output formats for tracks, with their file extensions. */
const CLIP_FORMATS = { table: '', json: '.json', csv: '.csv', mot: '.txt', cvat: '.xml' } as const
type ClipFormat = keyof typeof CLIP_FORMATS

export interface ClipOptions {
  readonly file: string
  /** The fields of the request beside its media. */
  readonly request: { readonly config: object }
  /** Seconds; undefined for the server's default. */
  readonly patience: number | undefined
  /** The frame rate by which exported frames are numbered; undefined to number the searched frames. */
  readonly fps: number | undefined
  readonly format: ClipFormat
  /** Null: standard output. */
  readonly output: string | null
}

type Followed = Pick<Detections, 'detections' | 'width' | 'height' | 'finish_reason'> & {
  readonly timestamps: readonly number[]
}

/** @throws ConfigError before any work is done, if nothing could be written. */
export async function readClipOutput(
  file: string,
  { format, outputs }: { readonly format: string | undefined; readonly outputs: readonly string[] },
): Promise<Pick<ClipOptions, 'format' | 'output'>> {
  const [output = null, spare] = outputs
  if (spare !== undefined) throw new ConfigError(`-o ${spare}: --tracks writes one file`)
  const formats = Object.keys(CLIP_FORMATS) as ClipFormat[]
  const named = formats.find((one) => one !== 'table' && output?.endsWith(CLIP_FORMATS[one]))
  const wanted = readChoice(format, '--format', formats) ?? named ?? 'table'
  if (output !== null) {
    if (wanted !== named) {
      const endings = formats.filter((one) => one !== 'table').map((one) => CLIP_FORMATS[one])
      throw new ConfigError(`-o ${output}: expected a file that ends with ${anyOf(endings)}, as its format does`)
    }
    await checkWritable(output, dirname(resolve(output)))
    await keepOriginals([output], [file], 'the video')
  }
  return { format: wanted, output }
}

/** @throws ConfigError unless it is a video. */
export async function openClip(words: readonly string[]): Promise<Medium> {
  const [word, spare] = words
  if (word === undefined || word === '-' || spare !== undefined) {
    throw new ConfigError('--tracks: expected one video, as in: lookout detect video.mp4 person --tracks')
  }
  const medium = await openMedium(word)
  if (medium.kind !== 'video') throw new ConfigError(`${word} is ${medium.type}, not a video, which --tracks needs`)
  return medium
}

/** Tracks objects through a video and writes their tracks. */
export async function followClip(clip: Medium, client: LookoutClient, options: ClipOptions): Promise<void> {
  await using uploads = new AsyncDisposableStack()
  const [sent] = await sendMedia([clip], client, uploads)
  const { request, patience } = options
  const config = { ...request.config, ...(patience === undefined ? {} : { patience }) }
  const followed = await followWhole({ ...request, config }, sent!.url, {
    ask: (body) => client.detect(body),
    onLeft: (left) => note(`${clip.name}: ${left} frames are left`),
  })
  if (followed.finish_reason !== 'complete') note(`${clip.name}: an answer was cut off, so objects may be missing`)
  const text = toText(followed, options)
  if (options.output === null) await print(text)
  else await writeWhole(options.output, text)
  if (options.format === 'table' && followed.detections.length === 0) note('nothing was found')
}

/** Repeats the request for the frames that the server's time limit has left out. */
export async function followWhole(
  request: ClipOptions['request'],
  url: string,
  { ask, onLeft }: { ask(body: object): Promise<Detections>; onLeft(frames: number): void },
): Promise<Followed> {
  const replies: Detections[] = []
  let isCut = false
  for (;;) {
    const state = replies.at(-1)?.state
    const config = { ...request.config, tracks: true, state: state ?? null }
    const reply = await ask({ ...request, config, media: { type: 'video', video_url: url } })
    replies.push(reply)
    const left = reply.frames_left ?? 0
    if (left === 0) isCut ||= reply.finish_reason !== 'complete'
    if (left === 0 || reply.timestamps?.length === 0) break
    onLeft(left)
  }
  const { width, height } = replies[0]!
  return {
    detections: replies.flatMap(({ detections }) => detections),
    timestamps: replies.flatMap(({ timestamps = [] }) => timestamps),
    ...(width === undefined || height === undefined ? {} : { width, height }),
    finish_reason: isCut ? 'length' : 'complete',
  }
}

function toText(followed: Followed, { file, format, fps }: ClipOptions): string {
  if (format === 'json') return `${JSON.stringify({ file, ...followed })}\n`
  if (format === 'mot') return toMot(toClip(followed, fps))
  if (format === 'cvat') return toCvat(toClip(followed, fps))
  const head = ['seconds', 'track', 'label', 'left', 'top', 'right', 'bottom']
  const rows = followed.detections.map(({ timestamp, track, mention, point_box: box }) => {
    const { top_left: from, bottom_right: to } = box!
    return [...[timestamp!, track!].map(String), mention, ...[from.x, from.y, to.x, to.y].map(String)]
  })
  if (format === 'csv') return [head, ...rows].map(csvLine).join('')
  return toTable(
    head.map((title) => title.toUpperCase()),
    rows,
  )
}

function toClip({ detections, timestamps, width, height }: Followed, fps: number | undefined): TrackedClip {
  // Pictures may begin later than the video; the first one is frame 0.
  const numberOf = (seconds: number) =>
    fps === undefined ? timestamps.indexOf(seconds) : Math.round((seconds - timestamps[0]!) * fps)
  const boxes = detections.map(({ mention: label, track, timestamp, point_box: box }) => {
    const { top_left: from, bottom_right: to } = box!
    const place = { left: from.x, top: from.y, right: to.x, bottom: to.y }
    return { label, ...place, track: track!, frame: numberOf(timestamp!) }
  })
  const size = width === undefined || height === undefined ? null : { width, height }
  return { boxes, frames: [...new Set(timestamps.map(numberOf))], size }
}
