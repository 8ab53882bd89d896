import { hasSoundAlone } from '../../../src/media/sound-alone.ts'
import { newId } from '../new-id.ts'
import { callJson } from '../server/call.ts'
import { key } from '../server/connection.ts'
import { Failure } from '../server/failure.ts'
import type { Part } from '../server/wire.ts'
import { carrying, nameMedia, rememberMedia } from './known-media.ts'
import { problemOf } from './limits.ts'
import { toWav } from './sound.ts'

export type MediaKind = 'image' | 'video' | 'audio'

/** An image, a video or a sound that the user has brought. Its bytes stay in the browser until a request needs them. */
export interface Attachment {
  readonly id: string
  readonly kind: MediaKind
  readonly name: string
  readonly blob: Blob
  /** For elements of the page; valid until `release`. */
  readonly url: string
  /** Width of the upright image or of the video's frames, in pixels; 0 for sounds. */
  readonly width: number
  readonly height: number
  /** In seconds; 0 for images. */
  readonly duration: number
  /** Where the server has it too, as a path: the samples. Snippets can then be pasted anywhere. */
  readonly path: string | null
  /** What of it the model does not get, in a sentence for the user. */
  readonly note?: string
}

/** Formats that the server takes. Other images become PNG and other sounds WAV, where the browser can read them. */
const IMAGES = new Set(['image/png', 'image/jpeg', 'image/webp'])
const VIDEOS = new Set(['video/mp4', 'video/webm', 'video/quicktime'])
/** The names of the formats that the server takes, by the names that browsers give them. */
const SOUNDS: Readonly<Record<string, string>> = {
  'audio/wav': 'wav',
  'audio/x-wav': 'wav',
  'audio/wave': 'wav',
  'audio/vnd.wave': 'wav',
  'audio/mpeg': 'mp3',
  'audio/mp3': 'mp3',
  'audio/flac': 'flac',
  'audio/x-flac': 'flac',
  'audio/mp4': 'm4a',
  'audio/x-m4a': 'm4a',
  'audio/ogg': 'ogg',
  'audio/webm': 'webm',
  'audio/aac': 'aac',
}
/** Files that browsers may have no type for. */
const KINDS_BY_EXTENSION: Readonly<Record<string, MediaKind>> = {
  heic: 'image',
  heif: 'image',
  tif: 'image',
  tiff: 'image',
  mkv: 'video',
  mov: 'video',
  flac: 'audio',
  m4a: 'audio',
  m4b: 'audio',
  oga: 'audio',
  ogg: 'audio',
  opus: 'audio',
  aac: 'audio',
}
/**
 * What the media of a request may take within its body, before base64 adds a third: a body may have 20 MiB. What has no
 * room is uploaded once and then named by its id.
 */
const MOST_INLINE_BYTES = 14 * 2 ** 20

/** @throws Error with a sentence for the user when the browser cannot read the bytes, or the server would not take them. */
export async function openAttachment(given: Blob, name: string, path: string | null = null): Promise<Attachment> {
  const kind = kindOf(given, name)
  const blob = await inTakenFormat(await copyOf(given, name), kind, name)
  const url = URL.createObjectURL(blob)
  try {
    const size = await (kind === 'image' ? measureImage(url) : measureTimed(kind, url)).catch(() => {
      throw unreadable(name, kind)
    })
    if (kind === 'video' && size.width === 0 && (await hasSoundAlone(blob))) {
      URL.revokeObjectURL(url)
      return await openAttachment(new Blob([blob], { type: blob.type.replace(/^video/, 'audio') }), name, path)
    }
    const frames = kind === 'image' ? await countFrames(given) : 1
    const note = frames > 1 ? { note: `${name} has ${frames} frames; the model sees only the first.` } : {}
    const attachment = { id: newId(), kind, name, blob, url, path, ...size, ...note }
    const problem = problemOf(attachment)
    if (problem !== null) throw new Error(problem)
    nameMedia(blob, name, path)
    return attachment
  } catch (error) {
    URL.revokeObjectURL(url)
    throw error
  }
}

export function release(attachment: Attachment): void {
  URL.revokeObjectURL(attachment.url)
}

/** What the body of a request has left for media within it. */
export class BodyRoom {
  #left = MOST_INLINE_BYTES

  /** @returns whether there was room. */
  take({ blob }: Attachment): boolean {
    // The contract has QuickTime among uploads only.
    if (blob.type === 'video/quicktime' || blob.size > this.#left) return false
    this.#left -= blob.size
    return true
  }
}

/** The content parts that carry media to the server. @throws Failure when one has to be uploaded and cannot. */
export function toParts(media: readonly Attachment[], room = new BodyRoom()): Promise<Part[]> {
  return Promise.all(media.map(async (one) => carrying(one, await toPart(one, room.take(one)))))
}

async function toPart(attachment: Attachment, isInline: boolean): Promise<Part> {
  const { kind, blob, name } = attachment
  if (!isInline) {
    const file_id = await upload(attachment)
    if (kind === 'audio') return { type: 'audio_file_id', audio_file_id: { file_id } }
    return kind === 'image'
      ? { type: 'image_file_id', image_file_id: { file_id } }
      : { type: 'video_file_id', video_file_id: { file_id } }
  }
  const url = await toDataUrl(attachment)
  if (kind === 'audio') {
    const format = SOUNDS[blob.type] ?? extensionOf(name)
    return { type: 'input_audio', input_audio: { data: url.split(',', 2)[1]!, format } }
  }
  return kind === 'image' ? { type: 'image_url', image_url: { url } } : { type: 'video_url', video_url: { url } }
}

/** The ids of files on the server, as the organisation of a key has them. */
let uploaded = new WeakMap<Blob, Promise<string>>()
let uploader = key.peek()

/** Sends the bytes once. @returns the file's id on the server. */
export async function upload(attachment: Attachment): Promise<string> {
  const { blob, name } = attachment
  if (key.value !== uploader) {
    uploaded = new WeakMap()
    uploader = key.value
  }
  const known = uploaded.get(blob)
  if (known) return known
  const form = new FormData()
  form.set('purpose', 'vision')
  form.set('file', blob, name)
  const id = callJson<{ id: string }>('/v1/files', { method: 'POST', body: form }).then(
    (file) => file.id,
    async (error: unknown) => {
      const why = await whyUnread(error, attachment)
      const isOwn = why instanceof Failure && ['request', 'unanswered'].includes(why.kind) && why.media === null
      throw isOwn ? why.about(attachment) : why
    },
  )
  const own = uploaded
  own.set(blob, id)
  id.catch(() => own.delete(blob))
  return id
}

/** Calls with a body, and once more with a new one where the server no longer has a file that the body names. */
export async function withUploads<Value>(
  bodyOf: () => Promise<object>,
  call: (body: object) => Promise<Value>,
): Promise<Value> {
  try {
    return await call(await bodyOf())
  } catch (error) {
    if (!(error instanceof Failure) || error.kind !== 'lost') throw error
    uploaded = new WeakMap()
    return call(await bodyOf())
  }
}

interface Readable {
  /** That of an attachment. */
  readonly id?: string
  readonly name: string
  readonly blob: Blob
}

/** Why something that reads a file has failed: another program may have changed it since it was brought. */
export async function whyUnread(error: unknown, { id, name, blob }: Readable): Promise<unknown> {
  const isThere = await blob
    .slice(0, 1)
    .arrayBuffer()
    .then(Boolean, () => false)
  if (isThere) return error
  const media = id === undefined ? null : { id, name }
  return new Failure('request', `${name} has been changed or removed on the disk: add it again.`, { media })
}

export function toDataUrl(file: Readable): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader()
    reader.onload = () => resolve(rememberMedia(file.blob, reader.result as string))
    reader.onerror = () => void whyUnread(reader.error, file).then(reject)
    reader.readAsDataURL(file.blob)
  })
}

/** The bytes as they are now, so that the file may change; those of large ones, which are mostly videos, stay on the disk. */
async function copyOf(blob: Blob, name: string): Promise<Blob> {
  if (!(blob instanceof File) || blob.size > MOST_INLINE_BYTES) return blob
  const bytes = await blob.arrayBuffer().catch(async (error: unknown) => {
    throw await whyUnread(error, { name, blob })
  })
  return new Blob([bytes], { type: blob.type })
}

function kindOf({ type }: Blob, name: string): MediaKind {
  const [kind] = type.split('/', 1)
  if (kind === 'image' || kind === 'video' || kind === 'audio') return kind
  const guess = KINDS_BY_EXTENSION[extensionOf(name)]
  if (guess !== undefined) return guess
  throw new Error(`${name} is not an image, a video or a sound.`)
}

function extensionOf(name: string): string {
  return /[.]([a-z0-9]+)$/i.exec(name)?.[1]?.toLowerCase() ?? ''
}

async function inTakenFormat(blob: Blob, kind: MediaKind, name: string): Promise<Blob> {
  if (kind === 'image') return IMAGES.has(blob.type) ? blob : toPng(blob, name)
  if (kind === 'audio') {
    if (SOUNDS[blob.type] !== undefined) return blob
    return toWav(blob).catch(() => {
      throw new Error(`This browser cannot read ${name}. Save it as WAV, MP3 or FLAC.`)
    })
  }
  if (VIDEOS.has(blob.type)) return blob
  throw new Error(`${name} is in a format that the server does not support. Save it as MP4 or WebM.`)
}

/** Also SVG and the first frame of a GIF. */
async function toPng(blob: Blob, name: string): Promise<Blob> {
  const url = URL.createObjectURL(blob)
  try {
    const image = new Image()
    image.src = url
    await image.decode()
    const canvas = new OffscreenCanvas(image.naturalWidth, image.naturalHeight)
    canvas.getContext('2d')!.drawImage(image, 0, 0)
    return await canvas.convertToBlob({ type: 'image/png' })
  } catch {
    throw new Error(`This browser cannot read ${name}. Save it as PNG or JPEG.`)
  } finally {
    URL.revokeObjectURL(url)
  }
}

function unreadable(name: string, kind: MediaKind): Error {
  const advice = kind === 'audio' ? ' If it is not, save it as WAV, MP3 or FLAC.' : ''
  return new Error(`This browser cannot read ${name}. It may be damaged.${advice}`)
}

/** Frames of an animation, in browsers that can tell. */
async function countFrames(blob: Blob): Promise<number> {
  if (!('ImageDecoder' in globalThis) || !(await ImageDecoder.isTypeSupported(blob.type))) return 1
  const decoder = new ImageDecoder({ data: blob.stream(), type: blob.type })
  try {
    await decoder.completed
    return decoder.tracks.selectedTrack?.frameCount ?? 1
  } catch {
    return 1
  } finally {
    decoder.close()
  }
}

type Size = Pick<Attachment, 'width' | 'height' | 'duration'>

async function measureImage(url: string): Promise<Size> {
  const image = new Image()
  image.src = url
  await image.decode()
  // Sizes of the upright image: browsers apply the EXIF orientation, as the server does.
  return { width: image.naturalWidth, height: image.naturalHeight, duration: 0 }
}

/** Later than the end of any media: a browser that does not know the length looks for it then. */
const BEYOND_S = 1e7

function measureTimed(kind: 'video' | 'audio', url: string): Promise<Size> {
  const element = document.createElement(kind)
  element.preload = 'metadata'
  return new Promise((resolve, reject) => {
    const measure = () => {
      // Recordings of a browser do not say how long they are.
      if (!Number.isFinite(element.duration)) {
        element.currentTime = BEYOND_S
        return
      }
      const [width, height] =
        element instanceof HTMLVideoElement ? [element.videoWidth, element.videoHeight] : ([0, 0] as const)
      resolve({ width, height, duration: element.duration })
      element.removeAttribute('src')
    }
    element.onloadedmetadata = measure
    element.ondurationchange = () => element.readyState > 0 && measure()
    element.onerror = reject
    element.src = url
  })
}
