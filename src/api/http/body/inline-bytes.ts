import { ApiError } from '../../../lib/errors/errors.ts'
import { isRecord } from '../../../lib/json/parse-json.ts'
import { isTextUrl, locate } from '../../../media/media-source.ts'

/** Fields that hold base64, or a data URL; all others hold URLs. `image` may hold either. */
const BASE64_KEYS = ['data', 'data_base64', 'file_data', 'image']

type Path = readonly (string | number)[]

/** Media decoded from a body, and the path of the text that they replace. */
export interface InlineBytes {
  readonly path: Path
  readonly bytes: Uint8Array<ArrayBuffer>
}

/** Shorter texts are left in the body: moving them is not worth the bookkeeping. */
const SHORTEST = 16 * 1024

/**
 * Whether JSON text may contain a string that is long enough. Searching a body of many small items takes longer than
 * all its other processing.
 */
export function mayHoldMedia(text: string): boolean {
  for (let at = 0; at + SHORTEST <= text.length; ) {
    // Base64 and URLs have no quotes.
    const quote = text.lastIndexOf('"', at + SHORTEST - 1)
    if (quote < at) return true
    at = quote + 1
  }
  return false
}

/**
 * Decodes the base64 media of a parsed body and leaves an empty string in their place. Invalid base64 stays where it
 * is: the media loader reports it later, as an error of that input alone.
 */
export function takeInlineMedia(body: object): InlineBytes[] {
  const found: InlineBytes[] = []
  for (const { holder, key, path } of mediaTexts(body)) {
    const text = holder[key]
    if (typeof text !== 'string' || text.length < SHORTEST) continue
    const bytes = decoded(text, key)
    if (bytes === null) continue
    holder[key] = ''
    found.push({ path, bytes })
  }
  return found
}

/** Sets the value at a path. */
export function putAt(body: unknown, path: Path, value: unknown): void {
  let holder = body as Fields
  for (const key of path.slice(0, -1)) holder = holder[key] as Fields
  holder[path.at(-1)!] = value
}

function decoded(text: string, key: string | number): Uint8Array<ArrayBuffer> | null {
  const isUrl = typeof key === 'string' && !BASE64_KEYS.includes(key)
  // The bytes alone would not identify the charset of a text.
  if (isUrl ? !/^\s*data:/i.test(text.slice(0, 100)) : isTextUrl(text)) return null
  try {
    const located = locate(isUrl ? { type: 'url', url: text } : { type: 'base64', data: text }, '')
    if (located.type !== 'bytes') return null
    const bytes = located.bytes as Uint8Array<ArrayBuffer>
    // Node decodes shorter texts into a shared pool, which cannot be transferred to another thread.
    return bytes.byteLength === bytes.buffer.byteLength ? bytes : new Uint8Array(bytes)
  } catch (error) {
    if (error instanceof ApiError) return null
    throw error
  }
}

type Fields = Record<string | number, unknown>

interface MediaText {
  readonly holder: Fields
  readonly key: string | number
  readonly path: Path
}

/** Yields every place where requests contain media. */
function* mediaTexts(body: object): Generator<MediaText> {
  const { messages, context, prompts, media, exemplars, negative_exemplars: negatives } = body as Fields
  const { input, questions, assets, document, query, documents } = body as Fields
  yield* inContents(messages, ['messages'])
  yield* inContents(context, ['context'])
  yield* inContents(prompts, ['prompts'])
  for (const list of ['content', 'output']) yield* inContents(input, ['input'], list)
  yield* inContents(questions, ['questions'], 'instructions')
  yield* inContents(documents, ['documents'])
  for (const [path, item] of [...items(input, ['input']), ...items(documents, ['documents'])])
    yield* field(item, path, 'image')
  for (const [path, item] of members({ input, query }, [])) {
    yield* field(item, path, 'image')
    yield* inParts(item.content, [...path, 'content'])
  }
  for (const [path, asset] of members(assets, ['assets'])) yield* field(asset, path, 'data_base64')
  for (const key of ['image_url', 'video_url']) yield* field(media, ['media'], key)
  for (const key of ['document_url', 'image_url']) yield* field(document, ['document'], key)
  const { image_url: picture } = (isRecord(document) ? document : {}) as Fields
  yield* field(picture, ['document', 'image_url'], 'url')
  const { frames } = (isRecord(media) ? media : {}) as Fields
  for (const [path, frame] of items(frames, ['media', 'frames'])) yield* field(frame, path, 'image_url')
  yield* elements(body as Fields, 'images', [])
  for (const [path, item] of items(exemplars, ['exemplars'])) yield* field(item.media, [...path, 'media'], 'image_url')
  for (const [path, item] of items(negatives, ['negative_exemplars'])) {
    yield* field(item.media, [...path, 'media'], 'image_url')
  }
}

function* inContents(turns: unknown, path: Path, list = 'content'): Generator<MediaText> {
  for (const [turn, fields] of items(turns, path)) {
    yield* elements(fields, 'images', turn)
    yield* inParts(fields[list], [...turn, list])
  }
}

function* inParts(content: unknown, path: Path): Generator<MediaText> {
  for (const [part, fields] of items(content, path)) {
    // Decisions and responses have the URL itself here.
    for (const key of ['image_url', 'video_url', 'file_data']) yield* field(fields, part, key)
    for (const type of ['image_url', 'video_url', 'audio_url']) yield* field(fields[type], [...part, type], 'url')
    yield* field(fields.input_audio, [...part, 'input_audio'], 'data')
    yield* field(fields.file, [...part, 'file'], 'file_data')
    yield* inBlock(fields, part)
    const clip = fields.video_frames as Fields | undefined
    for (const [frame, { image_url: image }] of items(clip?.frames, [...part, 'video_frames', 'frames'])) {
      yield* field(image, [...frame, 'image_url'], 'url')
    }
  }
}

/** A tool result has documents, and a document images. */
const DEEPEST_BLOCK = 2

/** Searches a block of Anthropic's convention, which may have its own blocks. */
function* inBlock({ source, content }: Fields, path: Path, depth = 0): Generator<MediaText> {
  yield* field(source, [...path, 'source'], 'data')
  if (depth === DEEPEST_BLOCK) return
  const chunks = isRecord(source) ? items(source.content, [...path, 'source', 'content']) : []
  for (const [inner, block] of [...items(content, [...path, 'content']), ...chunks])
    yield* inBlock(block, inner, depth + 1)
}

/** Searches a list of base64 texts, as in Ollama's requests. */
function* elements(holder: Fields, key: string, path: Path): Generator<MediaText> {
  const list = holder[key]
  if (!Array.isArray(list)) return
  for (const index of list.keys()) yield { holder: list as unknown as Fields, key: index, path: [...path, key, index] }
}

function* field(holder: unknown, path: Path, key: string): Generator<MediaText> {
  if (typeof holder === 'object' && holder !== null) yield { holder: holder as Fields, key, path: [...path, key] }
}

function* items(list: unknown, path: Path): Generator<[Path, Fields]> {
  if (!Array.isArray(list)) return
  for (const [index, item] of list.entries()) {
    if (typeof item === 'object' && item !== null) yield [[...path, index], item as Fields]
  }
}

function* members(record: unknown, path: Path): Generator<[Path, Fields]> {
  if (!isRecord(record)) return
  for (const [key, member] of Object.entries(record)) {
    if (typeof member === 'object' && member !== null) yield [[...path, key], member as Fields]
  }
}
