import { urlsOf } from '../../../conversation/request/held-media.ts'
import type { MediaUrl } from '../../../conversation/request/message.ts'
import type { Files } from '../../../files/files.ts'
import type { HeldFile } from '../../../files/held-files.ts'
import { ApiError } from '../../../lib/errors/errors.ts'
import { InlineMedia } from '../../../media/inline-media.ts'
import { locate } from '../../../media/media-source.ts'
import { itemId } from '../../../responses/response-id.ts'
import type { FileParts } from './input-messages.ts'
import type { ResponseSource } from './response-source.ts'
import type { ItemBody, UserPartBody } from './wire/items.ts'

type FileIds = ReadonlyMap<string, string>

/**
 * Holds the input of a request until it is stored. Media is stored at once, before the conversation takes its bytes, and
 * becomes files when the response is kept.
 */
export class HeldInput {
  readonly #items: readonly ItemBody[]
  readonly #organisation: string
  readonly #files: Files
  /** Media by hash, each stored once. */
  readonly #held = new Map<string, HeldFile>()
  readonly #hashes = new Map<MediaUrl, string>()
  #owned = true

  private constructor(items: readonly ItemBody[], organisation: string, files: Files) {
    this.#items = items
    this.#organisation = organisation
    this.#files = files
  }

  /** @throws ApiError 503 when there is no space. */
  static async hold(
    { own: items, files: parts }: ResponseSource,
    organisation: string,
    files: Files,
  ): Promise<HeldInput> {
    const input = new HeldInput(items, organisation, files)
    const contents = new Map<MediaUrl, Uint8Array>()
    for (const { media, form } of mediaOf(items, parts)) {
      const bytes = contents.has(media) ? null : bytesOf(media, form)
      if (bytes !== null) contents.set(media, bytes)
    }
    const held = await files.held.hold(organisation, [...contents.values()])
    for (const [index, media] of [...contents.keys()].entries()) {
      const file = held[index]
      // Bytes that cannot be a file are rejected with the reason when they are loaded.
      if (!file) continue
      input.#hashes.set(media, file.hash)
      input.#held.set(file.hash, file)
    }
    return input
  }

  /** Returns the number of bytes that are not yet stored as files. */
  get newBytes(): number {
    return [...this.#held.values()].reduce((sum, { id, bytes }) => (id === null ? sum : sum + bytes), 0)
  }

  /** Hands over the files, which the caller attaches. */
  take(): HeldFile[] {
    this.#owned = false
    return [...this.#held.values()]
  }

  /** Returns the items in their stored form: each with an id, and with file ids in place of media. */
  stored(response: string, ids: FileIds): ItemBody[] {
    const fileOf = (media: MediaUrl) => ids.get(this.#hashes.get(media) ?? '') ?? null
    return this.#items.map((item, index) => toStored(item, { response, index, fileOf }))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#owned) await this.#files.held.release(this.#organisation, this.take())
  }
}

function* mediaOf(
  items: readonly ItemBody[],
  parts: FileParts,
): Generator<{ media: MediaUrl; form: 'url' | 'base64' }> {
  for (const item of items) {
    const content = item.type === 'function_call_output' ? item.output : contentOf(item)
    if (typeof content === 'string') continue
    for (const part of content as readonly UserPartBody[]) {
      // A text is kept as the client sent it.
      if (part.type === 'input_file' && parts.get(part)?.type === 'text') continue
      const form = ['input_audio', 'file', 'input_file'].includes(part.type) ? 'base64' : 'url'
      for (const media of mediaIn(part)) yield { media, form }
    }
  }
}

function contentOf(item: ItemBody) {
  return 'role' in item && item.role === 'user' ? item.content : ''
}

function mediaIn(part: UserPartBody): readonly MediaUrl[] {
  switch (part.type) {
    case 'input_text':
      return []
    case 'input_image':
      return part.image_url ? [part.image_url] : []
    case 'input_file': {
      // An address is no base64, and stays as it is.
      const source = part.file_data || part.file_url
      return source ? [source] : []
    }
    case 'input_video':
      return [part.video_url]
    default:
      return [...urlsOf([{ content: [part] }])]
  }
}

/** Returns null for a URL, and for invalid base64. */
function bytesOf(media: MediaUrl, form: 'url' | 'base64'): Uint8Array | null {
  if (typeof media !== 'string') return media instanceof InlineMedia ? media.bytes : null
  if (form === 'url' && !/^\s*data:/i.test(media)) return null
  try {
    const located = locate(form === 'url' ? { type: 'url', url: media } : { type: 'base64', data: media }, '')
    return located.type === 'bytes' ? located.bytes : null
  } catch (error) {
    if (error instanceof ApiError) return null
    throw error
  }
}

interface Storing {
  readonly response: string
  readonly index: number
  fileOf(media: MediaUrl): string | null
}

function toStored(item: ItemBody, { response, index, fileOf }: Storing): ItemBody {
  const status = item.status ?? 'completed'
  const id = (prefix: 'msg' | 'rs' | 'fc' | 'fco') => item.id || itemId(response, prefix, 'i', index)
  switch (item.type) {
    case 'function_call':
      return { ...item, id: id('fc'), status }
    case 'reasoning':
      return { ...item, id: id('rs'), status, summary: item.summary ?? [] }
    case 'function_call_output': {
      const { output } = item
      const shown = typeof output === 'string' ? output : output.map((part) => withFile(part, fileOf) as typeof part)
      return { ...item, id: id('fco'), status, output: shown }
    }
  }
  const about = { id: id('msg'), type: 'message', status } as const
  switch (item.role) {
    case 'assistant': {
      const { content } = item
      const parts = typeof content === 'string' ? [{ type: 'output_text' as const, text: content }] : content
      return { ...item, ...about, content: parts }
    }
    case 'user': {
      const parts = typeof item.content === 'string' ? [textPart(item.content)] : item.content
      return { ...item, ...about, content: parts.map((part) => withFile(part, fileOf)) }
    }
    default:
      return { ...item, ...about, content: typeof item.content === 'string' ? [textPart(item.content)] : item.content }
  }
}

function textPart(text: string) {
  return { type: 'input_text' as const, text }
}

/** Replaces the bytes of a part with the id of a file. */
function withFile(part: UserPartBody, fileOf: Storing['fileOf']): UserPartBody {
  if (part.type === 'video_frames') return withFrames(part, fileOf)
  const [media] = mediaIn(part)
  const file_id = media === undefined ? null : fileOf(media)
  if (file_id === null) return part
  switch (part.type) {
    case 'input_image':
      return { ...part, image_url: null, file_id }
    case 'input_file':
      return { ...part, ...(part.file_data ? { file_data: null } : { file_url: null }), file_id }
    case 'file':
      return { type: 'file', file: { ...part.file, file_data: null, file_id } }
    case 'image_url':
      return { type: 'image_file_id', image_file_id: { file_id, detail: part.image_url.detail } }
    case 'input_video':
    case 'video_url':
      return { type: 'video_file_id', video_file_id: { file_id } }
    default:
      return { type: 'audio_file_id', audio_file_id: { file_id } }
  }
}

/** A frame can only have a URL. The URL of a file's content works on any host. */
function withFrames(part: Extract<UserPartBody, { type: 'video_frames' }>, fileOf: Storing['fileOf']): UserPartBody {
  const frames = part.video_frames.frames.map((frame) => {
    const file = fileOf(frame.image_url.url)
    return file === null ? frame : { ...frame, image_url: { url: `http://localhost/v1/files/${file}/content` } }
  })
  return { ...part, video_frames: { frames } }
}
