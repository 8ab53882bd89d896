import type { VideoLayout } from '../../families/video-layout.ts'
import type { TimeSpan } from '../../grounding/dialect.ts'
import type { ServedModel } from '../../inference/catalog/registry.ts'
import type { PromptPart } from '../../inference/contract/parts.ts'
import { ApiError, located } from '../../lib/errors/errors.ts'
import { nameOf, type Path, within } from '../../lib/errors/param.ts'
import { sumOf } from '../../lib/sum.ts'
import { SAMPLE_RATE } from '../../media/audio-tokens.ts'
import type { GridRegion } from '../../media/coordinates.ts'
import type {
  Cuts,
  DecodedImage,
  DecodedVideo,
  SamplingWish,
  VideoFrame,
} from '../../media/decoding/process/protocol.ts'
import { type ImageDetail, targetFor } from '../../media/image-detail.ts'
import { LiveFrame } from '../../media/live/live-frame.ts'
import type { MediaLoader } from '../../media/media-loader.ts'
import type { MediaInput, MediaRequest } from '../../media/media-request.ts'
import type { MediaReference } from '../../media/media-source.ts'
import type { RgbImage, Size } from '../../media/pixels.ts'
import type { ImageLimits, VideoLimits } from '../../models/card.ts'
import {
  type ImageContent,
  type MediaContent,
  type MediaUrl,
  mediaCount,
  mediaIn,
  modalityOf,
  type PlacedMessage,
  type VideoFramesContent,
} from '../request/message.ts'

/** The part of the media room that a conversation needs. */
export type MediaSource = Pick<MediaLoader, 'open'>

/** A media part of a conversation in the engine's form. */
export interface LoadedPart {
  readonly parts: readonly PromptPart[]
  /** The time that a video covers. */
  readonly span?: TimeSpan
}

/** The picture that coordinates of a part refer to; null for sound. */
export function pictureOf(loaded: LoadedPart | undefined): RgbImage | null {
  const shown = loaded?.parts.findLast((part) => part.type === 'image' || part.type === 'frames')
  return (shown?.type === 'frames' ? shown.frames[0] : shown?.image) ?? null
}

export type LoadedMedia = ReadonlyMap<MediaContent, LoadedPart>

interface MediaOptions {
  readonly model: ServedModel
  /** The request's media. */
  readonly media: MediaRequest
  /** Whether to include the sound of videos. */
  readonly withSound: boolean
  /** Maximum frames sampled from one video. */
  readonly maxFrames: number
  readonly wish?: SamplingWish | undefined
  readonly signal: AbortSignal
}

/** The limit of images and video frames in one request, and separately of audio items. */
export const MAX_MEDIA = 256

/** Parts of one request that are fetched and decoded at the same time. */
const CONCURRENCY = 8

/** The frames that the other inputs of a request leave for each video. */
export function framesPerVideo(messages: readonly PlacedMessage[]): number {
  const visual = mediaIn(messages).filter(({ part }) => modalityOf(part) !== 'audio')
  const videos = visual.filter(({ part: { type } }) => type === 'video_url' || type === 'video_file_id').length
  const others = sumOf(visual, ({ part }) => mediaCount(part)) - videos
  return Math.max(1, Math.floor((MAX_MEDIA - others) / Math.max(1, videos)))
}

/**
 * Loads all media of the conversation in the model's form. The first failure aborts the others.
 * @throws ApiError 400 naming the input at fault.
 */
export async function loadMedia(messages: readonly PlacedMessage[], options: MediaOptions): Promise<LoadedMedia> {
  const [outcome] = await loadMediaGroups([messages], options)
  if (outcome!.status === 'rejected') throw outcome!.reason
  return outcome!.value
}

/**
 * Loads the media of several groups of messages. A failure aborts only the others of its group.
 * @throws the signal's reason once that has fired.
 */
export async function loadMediaGroups(
  messages: readonly (readonly PlacedMessage[])[],
  options: MediaOptions,
): Promise<PromiseSettledResult<LoadedMedia>[]> {
  const { signal } = options
  const groups = messages.map((group) => new MediaGroup(group, signal))
  const queue = groups.flatMap((group) => [...group.waiting.values()].map((input) => ({ group, ...input })))
  await someAtATime(queue, async ({ group, part, param }) => {
    if (group.signal.aborted) return
    try {
      group.loaded.set(part, await load(part, param, { ...options, signal: group.signal }))
    } catch (error) {
      group.fail(error)
    }
  })
  signal.throwIfAborted()
  return groups.map((group) => group.outcome)
}

export interface PlacedUrl {
  readonly url: MediaUrl
  readonly param: Path
}

/**
 * Loads pictures by URL, with the size of the originals. The first failure aborts the others.
 * @throws ApiError 400 naming the picture at fault.
 */
export async function loadPictures(
  wanted: readonly PlacedUrl[],
  target: ImageLimits | Size,
  { media, signal }: Pick<MediaOptions, 'media' | 'signal'>,
): Promise<DecodedImage[]> {
  const failed = new AbortController()
  const either = AbortSignal.any([signal, failed.signal])
  const loaded: DecodedImage[] = []
  try {
    await someAtATime([...wanted.entries()], async ([i, { url, param }]) => {
      either.throwIfAborted()
      const load = (name: string) => media.image({ reference: referTo(url), param: name, signal: either }, target)
      loaded[i] = await byName(param, load)
    })
    return loaded
  } catch (error) {
    failed.abort(error)
    throw error
  }
}

/** Loads a picture and parts of it. @throws ApiError 400 naming it. */
export function loadCuts(
  { url, param }: PlacedUrl,
  { target, cuts }: { readonly target: ImageLimits; readonly cuts: Cuts },
  { media, signal }: Pick<MediaOptions, 'media' | 'signal'>,
): Promise<DecodedImage> {
  return byName(param, (name) => media.cuts({ reference: referTo(url), param: name, signal }, target, cuts))
}

/**
 * Loads a video's frames by its URL, at a model's size for still pictures.
 * @throws ApiError 400 naming the video.
 */
export async function loadVideoPictures(
  { url, param }: { readonly url: MediaUrl; readonly param: Path },
  { limits, maxFrames }: { readonly limits: VideoLimits; readonly maxFrames: number },
  { media, signal }: Pick<MediaOptions, 'media' | 'signal'>,
): Promise<DecodedVideo> {
  const wish = { limits, maxFrames, sound: null }
  return byName(param, (name) => media.video({ reference: referTo(url), param: name, signal }, wish))
}

/** Runs the items in their order, several at the same time. */
export async function someAtATime<Item>(
  items: readonly Item[],
  run: (item: Item) => Promise<void>,
  most = CONCURRENCY,
): Promise<void> {
  const queue = items.values()
  const worker = async () => {
    // All workers share one iterator.
    for (const item of queue) await run(item)
  }
  await Promise.all(Array.from({ length: Math.min(most, items.length) }, worker))
}

/** Loads a picture of the conversation again. @throws ApiError when that fails. */
export async function loadPicture(
  part: ImageContent,
  { target, region }: { readonly target: ImageLimits; readonly region: GridRegion },
  { media, param, signal }: { readonly media: MediaRequest; readonly param: Path; readonly signal: AbortSignal },
): Promise<RgbImage> {
  const { reference, page } = referenceOf(part)
  const load = (name: string) => {
    const input = { reference, param: name, signal }
    return page === undefined ? media.image(input, target, region) : media.page(input, page, target, region)
  }
  return (await byName(param, load)).image
}

class MediaGroup {
  /** A part that occurs in several messages is loaded once. */
  readonly waiting = new Map<MediaContent, { readonly part: MediaContent; readonly param: Path }>()
  readonly loaded = new Map<MediaContent, LoadedPart>()
  /** Fires when the group needs no more media. */
  readonly signal: AbortSignal
  readonly #failed = new AbortController()

  constructor(messages: readonly PlacedMessage[], signal: AbortSignal) {
    this.signal = AbortSignal.any([signal, this.#failed.signal])
    for (const { part, param } of mediaIn(messages)) {
      if (!this.waiting.has(part)) this.waiting.set(part, { part, param: within(param, part.type) })
    }
  }

  /** Only the first failure counts: it causes the later ones. */
  fail(error: unknown): void {
    this.#failed.abort(error)
  }

  get outcome(): PromiseSettledResult<LoadedMedia> {
    const { aborted, reason } = this.#failed.signal
    return aborted ? { status: 'rejected', reason } : { status: 'fulfilled', value: this.loaded }
  }
}

/** @param param the part's own object, e.g. `messages[0].content[1].video_url`. */
async function load(part: MediaContent, param: Path, options: MediaOptions): Promise<LoadedPart> {
  const { media, model, signal, withSound, maxFrames, wish } = options
  const { card } = model
  if (part.type === 'video_frames') return loadFrames(part, param, options)
  const { reference, field, page } = referenceOf(part)
  const modality = modalityOf(part)
  /** Loads the input through the media room, which knows inputs by name. */
  const ask = <Result>(load: (input: MediaInput) => Promise<Result>) => {
    return byName(within(param, field), (name) => load({ reference, param: name, signal }))
  }
  if (modality === 'image') {
    const target = targetFor(needed(card.image), detailOf(part))
    const { image } = await ask((input) =>
      page === undefined ? media.image(input, target, regionOf(part)) : media.page(input, page, target),
    )
    return { parts: [{ type: 'image', image }] }
  }
  try {
    if (modality === 'video') {
      const { layout, ...limits } = needed(card.video)
      const wanted = { limits, maxFrames, wish, sound: withSound ? needed(card.audio) : null }
      return videoParts(await ask((input) => media.video(input, wanted)), layout)
    }
    const limits = needed(card.audio)
    const { samples } = await ask((input) => media.audio(input, limits))
    return { parts: [{ type: 'audio', samples }] }
  } catch (error) {
    throw namingPart(error, param)
  }
}

/** Loads an input that the media room knows by name. Errors about the name get its path. */
export async function byName<Result>(path: Path, load: (name: string) => Promise<Result>): Promise<Result> {
  try {
    return await load(nameOf(path)!)
  } catch (error) {
    throw located(error, [path])
  }
}

function detailOf(part: MediaContent): ImageDetail | undefined {
  if (part.type === 'image_url') return part.image_url.detail
  if (part.type === 'file') return part.file.detail
  return part.type === 'image_file_id' ? part.image_file_id.detail : undefined
}

function regionOf(part: MediaContent): GridRegion | undefined {
  return part.type === 'image_url' ? part.region : undefined
}

/** An error about audio that is too long names the part; an error about a URL or its bytes names the URL. */
function namingPart(error: unknown, param: Path): unknown {
  if (!(error instanceof ApiError) || error.code !== 'audio_token_limit_exceeded') return error
  return error.at(param)
}

async function loadFrames(
  { video_frames: { frames } }: VideoFramesContent,
  param: Path,
  options: MediaOptions,
): Promise<LoadedPart> {
  const wanted = frames.map(({ image_url: { url } }, index) => ({
    url,
    param: within(param, 'frames', index, 'image_url', 'url'),
  }))
  const { layout, ...limits } = needed(options.model.card.video)
  // The encoder takes frames of one size; the first frame sets it.
  const [first] = await loadPictures(wanted.slice(0, 1), limits, options)
  const { width, height } = first!.image
  const others = await loadPictures(wanted.slice(1), { width, height }, options)
  const pictures = [first!, ...others]
  const timed = pictures.map(({ image }, index) => ({ image, seconds: frames[index]!.timestamp_ms / 1000 }))
  return { parts: frameParts(timed, layout), span: { from: timed[0]!.seconds, to: timed.at(-1)!.seconds } }
}

function videoParts({ frames, sound, durationSeconds }: DecodedVideo, layout: VideoLayout): LoadedPart {
  const parts = frameParts(frames, layout)
  if (sound === null) return { parts, span: { from: frames[0]!.seconds, to: durationSeconds } }
  parts.push({ type: 'audio', samples: sound.samples })
  // Sound may begin before the first frame and continue after the last.
  return { parts, span: { from: 0, to: Math.max(durationSeconds, sound.samples.length / SAMPLE_RATE) } }
}

/** Arranges frames as the model family expects: groups of as many as its encoder merges, each after its timestamp. */
function frameParts(
  frames: readonly Pick<VideoFrame, 'image' | 'seconds'>[],
  { framesPerGrid, timestamp }: VideoLayout,
): PromptPart[] {
  const parts: PromptPart[] = []
  for (let at = 0; at < frames.length; at += framesPerGrid) {
    const grid = frames.slice(at, at + framesPerGrid)
    if (timestamp !== null) {
      const middle = sumOf(grid, ({ seconds }) => seconds) / grid.length
      parts.push({ type: 'text', text: timeIn(timestamp, middle), trusted: true })
    }
    parts.push({ type: 'frames', frames: grid.map(({ image }) => image) })
  }
  return parts
}

function timeIn(timestamp: string, seconds: number): string {
  const whole = Math.floor(seconds)
  const clock = [Math.floor(whole / 60), whole % 60].map((part) => String(part).padStart(2, '0')).join(':')
  return timestamp.replaceAll('{seconds}', seconds.toFixed(1)).replaceAll('{mm:ss}', clock)
}

interface Referred {
  readonly reference: MediaReference
  /** The field that holds it. */
  readonly field: string
  /** The page of a document. */
  readonly page?: number | undefined
}

export function referenceOf(part: Exclude<MediaContent, VideoFramesContent>): Referred {
  switch (part.type) {
    case 'image_url':
      return { reference: referTo(part.image_url.url), field: 'url' }
    case 'video_url':
      return { reference: referTo(part.video_url.url), field: 'url' }
    case 'audio_url':
      return { reference: referTo(part.audio_url.url), field: 'url' }
    case 'input_audio':
      return { reference: referTo(part.input_audio.data, 'base64'), field: 'data' }
    case 'image_file_id':
      return { reference: { type: 'file', id: part.image_file_id.file_id }, field: 'file_id' }
    case 'video_file_id':
      return { reference: { type: 'file', id: part.video_file_id.file_id }, field: 'file_id' }
    case 'audio_file_id':
      return { reference: { type: 'file', id: part.audio_file_id.file_id }, field: 'file_id' }
    case 'file': {
      const { file, page } = part
      if (typeof file.file_id === 'string')
        return { reference: { type: 'file', id: file.file_id }, field: 'file_id', page }
      if ((file.file_url ?? null) !== null) return { reference: referTo(file.file_url!), field: 'file_url', page }
      const data = file.file_data!
      // Other APIs accept a URL here, as they have no field for one.
      const form = typeof data === 'string' && /^\s*https?:/i.test(data) ? 'url' : 'base64'
      return { reference: referTo(data, form), field: 'file_data', page }
    }
  }
}

/** @param form what a string holds: a URL, or base64 without the `data:` prefix. */
function referTo(url: MediaUrl, form: 'url' | 'base64' = 'url'): MediaReference {
  if (url instanceof LiveFrame) return { type: 'frame', frame: url }
  if (typeof url !== 'string') return { type: 'inline', media: url }
  return form === 'url' ? { type: 'url', url } : { type: 'base64', data: url }
}

/** Returns the limits. They are present: requests are admitted by the card, which the registry has verified. */
function needed<Limits>(limits: Limits | undefined): Limits {
  if (limits === undefined) throw new Error('A model was admitted with media that it has no limits for')
  return limits
}
