import { newId } from '../new-id.ts'
import { callJson } from '../server/call.ts'
import type { Part } from '../server/wire.ts'
import { nameMedia, rememberMedia } from './known-media.ts'

export type MediaKind = 'image' | 'video' | 'audio'

/** An image, a video or a sound that the user has brought. Its bytes stay in the browser until a request needs them. */
export interface Attachment {
  readonly id: string
  readonly kind: MediaKind
  readonly name: string
  readonly blob: Blob
  /** For elements of the page; valid until `release`. */
  readonly url: string
  /** Of the upright image or of the video's frames, in pixels; 0 for sounds. */
  readonly width: number
  readonly height: number
  /** In seconds; 0 for images. */
  readonly duration: number
  /** Where the server has it too, as a path: the samples. Snippets can then be pasted anywhere. */
  readonly path: string | null
}

/** Formats that the server takes. Other images that the browser can show are turned into PNG. */
const TAKEN = new Set(['image/png', 'image/jpeg', 'image/webp', 'video/mp4', 'video/webm', 'video/quicktime'])
const AUDIO_FORMATS: Readonly<Record<string, string>> = {
  'audio/wav': 'wav',
  'audio/x-wav': 'wav',
  'audio/wave': 'wav',
  'audio/mpeg': 'mp3',
  'audio/mp3': 'mp3',
  'audio/flac': 'flac',
  'audio/x-flac': 'flac',
  'audio/ogg': 'ogg',
  'audio/aac': 'aac',
  'audio/mp4': 'm4a',
  'audio/x-m4a': 'm4a',
}
/** Larger media is uploaded once and then named by its id: a request body may have 20 MB, and base64 adds a third. */
const MOST_INLINE_BYTES = 12 * 2 ** 20

/** @throws Error with a sentence for the user when the browser cannot read the bytes. */
export async function openAttachment(given: Blob, name: string, path: string | null = null): Promise<Attachment> {
  const kind = kindOf(given, name)
  const blob = kind === 'image' && !TAKEN.has(given.type) ? await toPng(given, name) : given
  const url = URL.createObjectURL(blob)
  try {
    const size = await (kind === 'image' ? measureImage(url) : measureTimed(kind, url))
    nameMedia(blob, name, path)
    return { id: newId(), kind, name, blob, url, path, ...size }
  } catch {
    URL.revokeObjectURL(url)
    throw new Error(`This browser cannot read ${name}.`)
  }
}

export function release({ url }: Attachment): void {
  URL.revokeObjectURL(url)
}

/**
 * The content part that carries the attachment to the server.
 * @param isInline whether the body has room for it.
 * @throws Failure when it has to be uploaded and cannot.
 */
export async function toPart(attachment: Attachment, isInline = true): Promise<Part> {
  const { kind, blob } = attachment
  if (kind === 'audio') {
    const format = AUDIO_FORMATS[blob.type] ?? extensionOf(attachment.name)
    return { type: 'input_audio', input_audio: { data: (await toDataUrl(blob)).split(',', 2)[1]!, format } }
  }
  if (!isInline || blob.size > MOST_INLINE_BYTES) {
    const file_id = await upload(attachment)
    return kind === 'image'
      ? { type: 'image_file_id', image_file_id: { file_id } }
      : { type: 'video_file_id', video_file_id: { file_id } }
  }
  const url = await toDataUrl(blob)
  return kind === 'image' ? { type: 'image_url', image_url: { url } } : { type: 'video_url', video_url: { url } }
}

const uploaded = new WeakMap<Blob, Promise<string>>()

/** Sends the bytes once. @returns the file's id on the server. */
export async function upload({ blob, name }: Attachment): Promise<string> {
  const known = uploaded.get(blob)
  if (known) return known
  const form = new FormData()
  form.set('purpose', 'vision')
  form.set('file', blob, name)
  const id = callJson<{ id: string }>('/v1/files', { method: 'POST', body: form }).then((file) => file.id)
  uploaded.set(blob, id)
  id.catch(() => uploaded.delete(blob))
  return id
}

export function toDataUrl(blob: Blob): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader()
    reader.onload = () => resolve(rememberMedia(blob, reader.result as string))
    reader.onerror = () => reject(reader.error)
    reader.readAsDataURL(blob)
  })
}

function kindOf({ type }: Blob, name: string): MediaKind {
  const [kind] = type.split('/', 1)
  if (kind === 'image' || kind === 'video' || kind === 'audio') return kind
  throw new Error(`${name} is neither an image, nor a video, nor a sound.`)
}

function extensionOf(name: string): string {
  return /[.]([a-z0-9]+)$/i.exec(name)?.[1]?.toLowerCase() ?? ''
}

async function toPng(blob: Blob, name: string): Promise<Blob> {
  const bitmap = await createImageBitmap(blob).catch(() => {
    throw new Error(`This browser cannot read ${name}.`)
  })
  const canvas = new OffscreenCanvas(bitmap.width, bitmap.height)
  canvas.getContext('2d')!.drawImage(bitmap, 0, 0)
  bitmap.close()
  return canvas.convertToBlob({ type: 'image/png' })
}

type Size = Pick<Attachment, 'width' | 'height' | 'duration'>

async function measureImage(url: string): Promise<Size> {
  const image = new Image()
  image.src = url
  await image.decode()
  // Of the upright image: browsers apply the EXIF orientation, as the server does.
  return { width: image.naturalWidth, height: image.naturalHeight, duration: 0 }
}

function measureTimed(kind: 'video' | 'audio', url: string): Promise<Size> {
  const element = document.createElement(kind)
  element.preload = 'metadata'
  return new Promise((resolve, reject) => {
    element.onloadedmetadata = () => {
      const [width, height] =
        element instanceof HTMLVideoElement ? [element.videoWidth, element.videoHeight] : ([0, 0] as const)
      resolve({ width, height, duration: Number.isFinite(element.duration) ? element.duration : 0 })
    }
    element.onerror = reject
    element.src = url
  })
}
