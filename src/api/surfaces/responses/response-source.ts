import type { Principal } from '../../../accounts/principal.ts'
import type { ContentPart } from '../../../conversation/request/message.ts'
import type { Files } from '../../../files/files.ts'
import { invalidRequest, say } from '../../../lib/errors/errors.ts'
import { nameOf, type Path } from '../../../lib/errors/param.ts'
import { InlineMedia } from '../../../media/inline-media.ts'
import { type Located, locate, type MediaReference } from '../../../media/media-source.ts'
import { AUDIO_NAME, HEAD_BYTES, kindOfType, type MediaKind, mediaType } from '../../../media/media-type.ts'
import { responseOfItem } from '../../../responses/response-id.ts'
import type { Responses, StoredResponse } from '../../../responses/responses.ts'
import { dataUrl } from '../data-url.ts'
import { textOfFile, UNREADABLE_TEXT } from '../openai/wire/messages.ts'
import { type FileParts, type PlacedItem, sourceOfFile } from './input-messages.ts'
import type { InputFileBody, InputItemBody, ItemBody, UserPartBody } from './wire/items.ts'
import type { ResponsePromptBody } from './wire/response-request.ts'

/** The limit of media in one request. */
const MOST_FILES = 256

export interface SourceOptions {
  readonly responses: Responses
  readonly files: Files
}

/** The conversation of a request. */
export interface ResponseSource {
  /** The responses that it continues, oldest first. */
  readonly chain: readonly StoredResponse[]
  /**
   * The items of the request itself, after those of a response that it continues and that is not stored. References are
   * replaced by their items.
   */
  readonly own: readonly ItemBody[]
  readonly items: readonly PlacedItem[]
  readonly files: FileParts
}

/**
 * @param kept finds the items of a response that is not stored.
 * @throws ApiError 400 for responses, items and files that the organisation does not have.
 */
export async function sourceOf(
  body: ResponsePromptBody,
  { organisation }: Principal,
  { responses, files }: SourceOptions,
  kept: (id: string) => ItemBody[] | undefined,
): Promise<ResponseSource> {
  const { previous_response_id: previous } = body
  const unstored = previous ? kept(previous) : undefined
  const chain = previous && !unstored ? await responses.continued(organisation, previous) : []
  const earlier = unstored ?? chain.flatMap(itemsOf)
  const own = await withoutReferences(body.input, (ids) => responses.referred(organisation, ids, 'input'))
  checkIds(own, earlier)
  const items = [...earlier.map((item) => ({ item, place: ['previous_response_id'], own: false })), ...own]
  const known = await filePartsOf(items, (ids) => files.contentTypes(organisation, ids))
  return { chain, own: [...(unstored ?? []), ...own.map(({ item }) => item)], items, files: known }
}

/** Returns the items of a stored response: its input, then its output. */
export function itemsOf({ input, body }: StoredResponse): ItemBody[] {
  const { output } = JSON.parse(body) as { output: ItemBody[] }
  return [...(JSON.parse(input) as ItemBody[]), ...output]
}

async function withoutReferences(
  input: string | readonly InputItemBody[],
  find: (ids: readonly string[]) => Promise<StoredResponse[]>,
): Promise<PlacedItem[]> {
  if (typeof input === 'string') return [{ item: { role: 'user', content: input }, place: ['input'], own: false }]
  const referred = input.flatMap((item) => (item.type === 'item_reference' ? [item.id] : []))
  const owners = [...new Set(referred.map(responseOfItem).filter((id) => id !== null))]
  const known = new Map<string, ItemBody>()
  for (const item of (await find(owners)).flatMap(itemsOf)) if (item.id) known.set(item.id, item)
  return input.map((item, index): PlacedItem => {
    const place = ['input', index]
    if (item.type !== 'item_reference') return { item, place, own: true }
    const found = known.get(item.id)
    if (found === undefined) throw invalidRequest(`Item with id '${item.id.slice(0, 100)}' not found`, [...place, 'id'])
    return { item: found, place: [...place, 'id'], own: false }
  })
}

/** Pages of a conversation begin after an id. @throws ApiError 400 for one that it has already. */
function checkIds(own: readonly PlacedItem[], earlier: readonly ItemBody[]): void {
  const ids = new Set(earlier.map(({ id }) => id))
  for (const [index, { item }] of own.entries()) {
    if (!item.id) continue
    if (ids.has(item.id)) {
      const message = `The conversation has an item with id '${item.id.slice(0, 100)}' already: leave one out`
      throw invalidRequest(message, ['input', index, 'id'])
    }
    ids.add(item.id)
  }
}

/** @throws ApiError 400 for a file of a type that no model takes. */
async function filePartsOf(
  items: readonly PlacedItem[],
  typesOf: (ids: readonly string[]) => Promise<ReadonlyMap<string, string>>,
): Promise<FileParts> {
  const parts = new Map<InputFileBody, ContentPart>()
  const placed = items.flatMap(placedFilesOf).filter(({ file, param }) => {
    const found = textOfFile({ ...file, file_data: file.file_data || file.file_url })
    if (found === null) return true
    if (found.text === null) throw invalidRequest(say`Invalid '${param}': ${UNREADABLE_TEXT}`, param)
    parts.set(file, { type: 'text', text: found.text })
    return false
  })
  if (placed.length > MOST_FILES) {
    throw invalidRequest(`A request may contain at most ${MOST_FILES} files, got ${placed.length}`, 'input')
  }
  const ids = placed.flatMap(({ file, param }) => {
    const at = file.file_data ? null : locate(referenceOf(file), nameOf(param)!)
    return at?.type === 'file' ? [at.id] : []
  })
  const types = await typesOf(ids)
  for (const { file, param } of placed) parts.set(file, toPart(file, kindOf(file, types, param)))
  return parts
}

function placedFilesOf({ item, place, own }: PlacedItem): { file: InputFileBody; param: Path }[] {
  const [field, parts] =
    item.type === 'function_call_output' ? ['output', item.output] : ['content', 'role' in item ? item.content : '']
  if (typeof parts === 'string') return []
  return (parts as readonly UserPartBody[]).flatMap((file, index) => {
    if (file.type !== 'input_file') return []
    return [{ file, param: own ? [...place, field, index, sourceOfFile(file)] : place }]
  })
}

function referenceOf({ file_id: id, file_url: url, file_data: data }: InputFileBody): MediaReference {
  if (typeof id === 'string') return { type: 'file', id }
  if (!data) return { type: 'url', url: url ?? '' }
  return data instanceof InlineMedia ? { type: 'inline', media: data } : { type: 'base64', data: String(data) }
}

function kindOf(file: InputFileBody, types: ReadonlyMap<string, string>, param: Path): MediaKind {
  const at = locate(referenceOf(file), nameOf(param)!)
  const kind = at.type === 'address' ? kindOfName(at.url, file.filename) : kindOfContent(at, types, param)
  if (kind) return kind
  throw invalidRequest(`The file has an unsupported type; expected ${SUPPORTED}`, param)
}

function kindOfContent(at: Exclude<Located, { type: 'address' }>, types: ReadonlyMap<string, string>, param: Path) {
  if (at.type === 'bytes') {
    const type = mediaType(at.bytes.subarray(0, HEAD_BYTES))
    return type && kindOfType(type)
  }
  const type = types.get(at.id)
  if (type === undefined) throw invalidRequest(`No such File object: ${at.id.slice(0, 200)}`, param)
  return kindOfType(type)
}

const SUPPORTED =
  'a PNG, JPEG or WebP image, a PDF, an MP4 or WebM video, WAV, MP3, FLAC, M4A, Ogg or AAC audio, or a data URL of a text'

const EXTENSIONS: Readonly<Record<MediaKind, RegExp>> = {
  image: /\.(png|jpe?g|webp|bmp|avif)$/i,
  video: /\.(mp4|m4v|webm)$/i,
  audio: AUDIO_NAME,
  document: /\.(pdf|tiff?)$/i,
}

/**
 * Derives the type from the name and the URL: nothing is fetched before its use is known. An address that says nothing is that of
 * a document, as OpenAI has it.
 */
function kindOfName(url: URL, filename: string | null | undefined): MediaKind | null {
  const names = [filename ?? '', url.pathname]
  const kinds = Object.entries(EXTENSIONS) as [MediaKind, RegExp][]
  const known = kinds.find(([, pattern]) => names.some((name) => pattern.test(name)))?.[0]
  return known ?? (names.some((name) => /\.[a-z]\w{0,4}$/i.test(name)) ? null : 'document')
}

function toPart(file: InputFileBody, kind: MediaKind): ContentPart {
  if (kind === 'document') return { type: 'file', file }
  const { file_id, file_url, file_data, detail } = file
  if (typeof file_id === 'string') {
    if (kind === 'image') return { type: 'image_file_id', image_file_id: { file_id, detail } }
    if (kind === 'video') return { type: 'video_file_id', video_file_id: { file_id } }
    return { type: 'audio_file_id', audio_file_id: { file_id } }
  }
  const url = file_data ? dataUrl(file_data) : file_url!
  if (kind === 'image') return { type: 'image_url', image_url: { url, detail } }
  if (kind === 'video') return { type: 'video_url', video_url: { url } }
  return { type: 'audio_url', audio_url: { url } }
}
