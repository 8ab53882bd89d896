import { openAsBlob } from 'node:fs'
import { open, readdir, readFile, stat } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import type { LookoutClient } from '../../client/client.ts'
import { ServerError } from '../../client/server-error.ts'
import { ConfigError } from '../../config/config.ts'
import {
  AUDIO_NAME,
  audioType,
  HEAD_BYTES,
  kindOfType,
  type MediaKind,
  type MediaType,
  mediaType,
  typeName,
} from '../../media/media-type.ts'
import { hasSoundAlone } from '../../media/sound-alone.ts'
import type { PageWish } from './numbers.ts'
import { note, partingSignal, removedInAnyCase, untilParted } from './screen.ts'

/** A picture, video or sound to ask about. */
export interface Medium {
  /** Name in errors and results: the given path. */
  readonly name: string
  readonly kind: MediaKind
  readonly type: MediaType
  readonly size: { readonly width: number; readonly height: number } | null
  /** Pages of a document; absent for all of them. */
  readonly pages?: string
  readonly byteLength: number
  bytes(): Promise<Uint8Array>
  blob(): Promise<Blob>
}

export interface Picture extends Medium {
  readonly kind: 'image'
  readonly size: { readonly width: number; readonly height: number }
  /** The bytes in a form that any program shows like the server reads it. */
  shown(): Promise<Uint8Array>
}

/** A file that cannot be used. The others of a folder still can. */
export class MediaError extends ConfigError {}

const TAKEN =
  'a picture (PNG, JPEG, WebP, GIF, TIFF, AVIF, BMP or SVG), a PDF, a video (MP4, WebM or QuickTime) or a sound (WAV, MP3, FLAC, M4A, Ogg or AAC)'
export const STDIN_NAME = 'standard input'

/** The file of a medium. */
export interface MediaFile {
  /** Name in errors. */
  readonly name: string
  /** The first bytes, which determine the type. */
  head(): Promise<Uint8Array>
  size(): Promise<number>
  whole(): Promise<Buffer>
  blob(type: MediaType): Promise<Blob>
}

interface Reading {
  /** Null for the first page of a picture, with a note if there are more, and for all pages of a document. */
  readonly page?: PageWish
  /** False if a picture of this size must not be read into memory. */
  readonly takesPictures?: boolean
  /** Called with the number of a picture's pages if only the first is used; by default, a note is printed. */
  readonly onPages?: (pages: number) => void
}

/** @throws MediaError */
export function openMedium(path: string, page: PageWish = null): Promise<Medium> {
  const file: MediaFile = {
    name: path,
    head: () => readHead(path),
    size: async () => (await stat(path)).size,
    whole: () =>
      readFile(path).catch((error: unknown) => {
        throw unreadable(path, error)
      }),
    blob: (type) => openAsBlob(path, { type }),
  }
  return readMedium(file, { page })
}

/** @throws MediaError */
export async function readMedium(file: MediaFile, reading: Reading = {}): Promise<Medium> {
  const { name } = file
  const { takesPictures = true, page = null } = reading
  const type = await typeOf(file)
  const kind = kindOf(type)
  // Pages of a TIFF are extracted here.
  if (type === null || kind === null || kind === 'image' || type === 'image/tiff') {
    if (!takesPictures) throw new MediaError(`${name} is too large for a picture`)
    return pictureOf(name, await file.whole(), reading)
  }
  const isPaged = kind === 'document'
  if (page !== null && !isPaged) throw new MediaError(`${name} is ${type}, which has no pages`)
  return {
    name,
    kind,
    type,
    size: null,
    ...(page === null ? {} : { pages: String(page) }),
    byteLength: await file.size(),
    bytes: () => file.whole(),
    blob: () => file.blob(type),
  }
}

/** The head of a video container does not say whether there are pictures. */
async function typeOf(file: MediaFile): Promise<MediaType | null> {
  const type = mediaType(await file.head())
  const sound = type === null ? type : audioType(type)
  return type === sound || !(await hasSoundAlone(await file.blob(type!))) ? type : sound
}

/** @throws MediaError if it is not a picture. */
export async function openPicture(path: string, page: PageWish = null): Promise<Picture> {
  const medium = await openMedium(path, page)
  if (isPicture(medium)) return medium
  throw new MediaError(`${path} is ${medium.type}, not a picture`)
}

export function isPicture(medium: Medium): medium is Picture {
  return medium.kind === 'image'
}

/** Reads standard input: a medium if its first bytes say so, otherwise text. @throws MediaError */
export async function readStandardInput(page: PageWish = null): Promise<Medium | string> {
  const bytes = await buffer(process.stdin)
  const head = bytes.subarray(0, HEAD_BYTES)
  if (mediaType(head) !== null || typeName(head).startsWith('image/')) {
    const file: MediaFile = {
      name: STDIN_NAME,
      head: async () => head,
      size: async () => bytes.length,
      whole: async () => bytes,
      blob: async (type) => new Blob([bytes], { type }),
    }
    return readMedium(file, { page })
  }
  const text = bytes.toString('utf8').trim()
  if (text === '') throw new MediaError('standard input is empty')
  if (text.includes('\0') || text.includes('\ufffd'))
    throw new MediaError(`standard input is neither text nor ${TAKEN}`)
  return text
}

/** File names of supported media. */
const NAMES: Readonly<Record<MediaKind, RegExp>> = {
  image: /\.(png|jpe?g|webp|gif|tiff?|avif|bmp|svg)$/i,
  video: /\.(mp4|m4v|webm|mov)$/i,
  audio: AUDIO_NAME,
  document: /\.pdf$/i,
}

/** The kind of a file by its name alone; null if it is no medium. */
export function kindOfName(name: string): MediaKind | null {
  return (Object.keys(NAMES) as MediaKind[]).find((kind) => NAMES[kind].test(name)) ?? null
}

/**
 * The pictures in a folder, by name, including files named like pictures that are empty or unreadable. Subfolders are
 * left out.
 */
export async function picturesIn(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { withFileTypes: true }).catch((error: NodeJS.ErrnoException) => {
    throw new ConfigError(`the folder ${folder} cannot be read: ${error.code}`)
  })
  const compare = new Intl.Collator('en', { numeric: true }).compare
  const names = entries.filter((entry) => !entry.isDirectory() && !entry.name.startsWith('.')).map(({ name }) => name)
  const pictures: string[] = []
  for (const name of names.sort(compare)) {
    const path = join(folder, name)
    const head = await readHead(path).catch(() => null)
    if (kindOfName(name) === 'image' || (head !== null && typeName(head).startsWith('image/'))) pictures.push(path)
  }
  if (pictures.length === 0) throw new ConfigError(`there is no picture in the folder ${folder}`)
  return pictures
}

/** The most bytes of media in one request, beside its text; base64 makes them a third longer. */
const MOST_INLINE_BYTES = 12 * 2 ** 20

/** A medium in a form for the server. */
export interface SentMedium {
  /** A data URL, or the address of a file of the server. */
  readonly url: string
  /** The part of a message that holds it. */
  readonly part: object
}

/**
 * Sends media to the server: in the request itself if they fit, otherwise as uploaded files, which are removed when the
 * stack is disposed of.
 */
export async function sendMedia(
  media: readonly Medium[],
  client: LookoutClient,
  uploads: AsyncDisposableStack,
  signal = partingSignal,
): Promise<SentMedium[]> {
  const sent: SentMedium[] = []
  let inline = 0
  for (const medium of media) {
    const { kind, type, byteLength } = medium
    // The contract accepts QuickTime only as an upload.
    if (type !== 'video/quicktime' && inline + byteLength <= MOST_INLINE_BYTES) {
      inline += byteLength
      const url = `data:${type};base64,${Buffer.from(await medium.bytes()).toString('base64')}`
      sent.push({ url, part: inlinePart(medium, url) })
      continue
    }
    const upload = client.upload(await medium.blob(), basename(medium.name), signal)
    // The server may have the file before its answer arrives.
    uploads.defer(removedInAnyCase(() => upload.then((id) => client.deleteFile(id)).catch(() => {})))
    const id = await upload.catch(async (error: unknown) => {
      await untilParted()
      throw error instanceof ServerError && error.param === 'file' ? aboutMedium(medium.name, error) : error
    })
    const part =
      kind === 'document'
        ? { type: 'file', file: { file_id: id, ...pagesOf(medium) } }
        : { type: `${kind}_file_id`, [`${kind}_file_id`]: { file_id: id } }
    sent.push({ url: `${client.url}/v1/files/${id}/content`, part })
  }
  return sent
}

function inlinePart(medium: Medium, url: string): object {
  const { kind, type, name } = medium
  if (kind === 'document')
    return { type: 'file', file: { filename: basename(name), file_data: url, ...pagesOf(medium) } }
  return kind === 'audio' ? soundPart(url, type) : urlPart(kind, url)
}

function pagesOf({ pages }: Pick<Medium, 'pages'>): { readonly pages?: string } {
  return pages === undefined ? {} : { pages }
}

export function urlPart(kind: MediaKind, url: string, pages: Pick<Medium, 'pages'> = {}): object {
  if (kind === 'document') return { type: 'file', file: { file_data: url, ...pagesOf(pages) } }
  return { type: `${kind}_url`, [`${kind}_url`]: { url } }
}

/** Formats by their names in the API. */
const SOUND_FORMATS: Readonly<Partial<Record<MediaType, string>>> = {
  'audio/mpeg': 'mp3',
  'audio/flac': 'flac',
  'audio/mp4': 'm4a',
  'audio/ogg': 'ogg',
  'audio/webm': 'webm',
  'audio/aac': 'aac',
}

function soundPart(data: string, type: MediaType): object {
  const format = SOUND_FORMATS[type] ?? 'wav'
  return { type: 'input_audio', input_audio: { data, format } }
}

/**
 * Replaces the parameter in a server's error by the name of the medium that it concerns, if it concerns one.
 * @param names of the media at the beginning of the one message with media, in order.
 */
export function namedFault(error: unknown, names: readonly string[]): unknown {
  if (!(error instanceof ServerError) || error.param === null) return error
  const place = /^(?:messages|input)\[\d+\]\.content\[(\d+)\]|^media\b/.exec(error.param)
  const name = place === null ? undefined : names[Number(place[1] ?? 0)]
  return name === undefined ? error : aboutMedium(name, error)
}

function aboutMedium(name: string, { message, param }: ServerError): MediaError {
  // Commands and tools have another name for the pages of a document.
  const told = param?.endsWith('.pages') ? message.replace(param, 'page') : message
  return new MediaError(`${name}: ${told}`)
}

/** @throws MediaError for bytes that are not a picture that can be decoded. */
async function pictureOf(name: string, given: Buffer, { page = null, onPages }: Reading): Promise<Picture> {
  if (typeof page === 'string') throw new MediaError(`${name} is a picture, of which --page takes one number`)
  const found = typeName(given.subarray(0, HEAD_BYTES))
  if (given.length === 0) throw new MediaError(`${name} is empty`)
  if (!found.startsWith('image/')) {
    throw new MediaError(`${name} is ${found === 'an unknown type' ? 'of an unknown type' : found}: expected ${TAKEN}`)
  }
  // Loaded only if there is a picture: loading its library takes half the time of a command.
  const { pageOf, plainPicture } = await import('./pages.ts')
  const isTaken = kindOf(mediaType(given.subarray(0, HEAD_BYTES))) === 'image'
  // Formats that the server does not accept become PNG.
  const paged = await pageOf(given, page ?? 1, isTaken).catch(() => {
    if (isTaken) throw new MediaError(`${name} is damaged`)
    throw new MediaError(`${name} is ${found}, which cannot be read here: expected ${TAKEN}`)
  })
  if (paged === null) throw new MediaError(`${name} has no page ${page}`)
  const { bytes, size, pages } = paged
  // For formats that the server accepts, the server itself says so.
  if (page === null && pages > 1 && !isTaken) {
    const tell = onPages ?? (() => note(`${firstOf(name, pages)}: --page N takes another`))
    tell(pages)
  }
  const type = mediaType(bytes.subarray(0, HEAD_BYTES))!
  return {
    name,
    kind: 'image',
    type,
    size,
    byteLength: bytes.length,
    bytes: async () => bytes,
    shown: () => plainPicture(bytes),
    blob: async () => new Blob([new Uint8Array(bytes)], { type }),
  }
}

/** The note about a picture with further pages. Frames of an animation count as pages. */
export function firstOf(name: string, pages: number): string {
  return `${name} has ${pages} pages, of which only the first is looked at`
}

async function readHead(path: string): Promise<Uint8Array> {
  try {
    await using file = await open(path)
    const { buffer: head, bytesRead } = await file.read(Buffer.alloc(HEAD_BYTES), 0, HEAD_BYTES, 0)
    return head.subarray(0, bytesRead)
  } catch (error) {
    throw unreadable(path, error)
  }
}

function unreadable(path: string, error: unknown): MediaError {
  const { code } = error as NodeJS.ErrnoException
  const reason = code === 'ENOENT' && isNoUtf8(path) ? 'its name is not UTF-8' : (code ?? error)
  return new MediaError(`${path} cannot be read: ${reason}`)
}

/** Whether a name is not UTF-8: Node replaces invalid bytes by this character. */
export function isNoUtf8(path: string): boolean {
  return path.includes('\ufffd')
}

function kindOf(type: MediaType | null): MediaKind | null {
  return type === null ? null : kindOfType(type)
}
