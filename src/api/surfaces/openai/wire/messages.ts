import { z } from 'zod'
import type { MediaUrl } from '../../../../conversation/request/message.ts'
import { ApiError } from '../../../../lib/errors/errors.ts'
import { IMAGE_DETAILS } from '../../../../media/image-detail.ts'
import { isTextUrl, locate } from '../../../../media/media-source.ts'
import { HEAD_BYTES, mediaType } from '../../../../media/media-type.ts'
import { goesForward, PAGE_SELECTION } from '../../../../media/page-selection.ts'
import { asText, clientMap } from '../../../http/wire/client-json.ts'
import { requestSchemas, requests } from '../../../http/wire/components.ts'

/**
 * Limits for lists that the contract does not limit. They exceed the size of a context window, and are checked before the
 * items. Each model's limits are checked later.
 */
export const MOST_MESSAGES = 65_536
export const MOST_PARTS = 16_384
/** Maximum calls of one turn. */
export const MOST_CALLS = 1_024

/**
 * Rejects a list of items in which a turn has too many calls, before any processing. An item that is not a call and does
 * not continue a turn ends it.
 */
export function limitCalls<Item>(isCall: (item: Item) => boolean, continuesTurn: (item: Item) => boolean = isCall) {
  return (items: readonly Item[], context: z.core.$RefinementCtx<unknown>): void => {
    let calls = 0
    for (const [index, item] of items.entries()) {
      if (isCall(item)) calls++
      else if (!continuesTurn(item)) calls = 0
      if (calls <= MOST_CALLS) continue
      const message = `expected at most ${MOST_CALLS} calls in one turn`
      context.addIssue({ code: 'custom', path: [index], message })
      return
    }
  }
}

/** An HTTP(S) URL or a data URL. Large data URLs are replaced by their bytes (`http/body/inline-bytes.ts`). */
export const mediaUrl: z.ZodType<MediaUrl, string> = z.string().min(1, 'expected a URL')

/** In parts whose shape the contract leaves open, the object is under the key that `type` names. */
const url = requests.object('MediaUrl', { url: mediaUrl })
const fileId = requests.object('FileReference', { file_id: z.string().min(1, 'expected a file id') })

/**
 * Whether the client sent an object. If it sent the media without one, in Mistral's shape, the part becomes the
 * contract's, and `sent` is the field that errors name.
 */
function isFields<Value>(value: Value): value is Exclude<Value, MediaUrl> {
  return typeof value === 'object'
}

/** Other values count as left out: the contract ignores invalid optional fields. */
export const detail = z.enum(IMAGE_DETAILS).optional().catch(undefined)
const PAGES = "expected pages such as '1-3,5'"
/** The pages of a document, in every API. */
export const pages = z
  .string()
  .max(200)
  .regex(PAGE_SELECTION, PAGES)
  .refine(goesForward, PAGES)
  .nullish()
  .describe("Extension: which pages the model sees, from 1, such as '1-3,5' or '7-'; all by default. Each is an image.")
export const pageText = z
  .boolean()
  .nullish()
  .describe(
    'Extension: whether each page’s image is followed by the text that the document itself has for the page. False by default.',
  )
const imageUrlWithDetail = url.extend({ detail }).register(requestSchemas, { id: 'ImageUrl' })
const imageFile = fileId.extend({ detail }).register(requestSchemas, { id: 'ImageFileReference' })

export const textPart = requests.object('TextPart', { type: z.literal('text'), text: z.string() })
const imageUrl = requests
  .object('ImageUrlPart', { type: z.literal('image_url'), image_url: z.union([imageUrlWithDetail, mediaUrl]) })
  .transform(({ image_url: image, type }) =>
    isFields(image) ? { type, image_url: image } : { type, image_url: { url: image, detail: undefined }, sent: type },
  )
const imageFileId = requests.object('ImageFilePart', { type: z.literal('image_file_id'), image_file_id: imageFile })

const videoFrame = requests.object('VideoFrame', { image_url: url, timestamp_ms: z.int().min(0) })

const FEWEST_FRAMES = 2
const MOST_FRAMES = 256

const videoFrames = requests.object('VideoFrames', {
  frames: z
    .array(videoFrame)
    .min(FEWEST_FRAMES)
    .max(MOST_FRAMES)
    .superRefine((frames, context) => {
      const at = frames.findIndex((frame, i) => i > 0 && frame.timestamp_ms < frames[i - 1]!.timestamp_ms)
      if (at === -1) return
      const message = 'expected timestamps that do not decrease'
      context.addIssue({ code: 'custom', path: [at, 'timestamp_ms'], message })
    }),
})

const JPEG_FRAMES = /^\s*data:video\/jpeg;\s*base64,/i

/** vLLM's clients send frames as one data URL, separated by commas. As in vLLM, they are one second apart. */
const videoUrl = requests
  .object('VideoUrlPart', { type: z.literal('video_url'), video_url: url })
  .transform(({ type, video_url: video }, context) => {
    const [head] = JPEG_FRAMES.exec(String(video.url).slice(0, 100)) ?? []
    if (head === undefined) return { type, video_url: video }
    const data = String(video.url)
      .slice(head.length)
      .split(',', MOST_FRAMES + 1)
    if (data.length < FEWEST_FRAMES || data.length > MOST_FRAMES) {
      const message = `expected ${FEWEST_FRAMES} to ${MOST_FRAMES} frames, separated by commas`
      context.addIssue({ code: 'custom', path: [type, 'url'], message })
    }
    const frames = data.map((frame, second) => ({
      image_url: { url: `data:image/jpeg;base64,${frame}` as MediaUrl },
      timestamp_ms: 1000 * second,
    }))
    return { type: 'video_frames' as const, video_frames: { frames }, sent: type }
  })

/** Clients' names of the formats. Only the bytes count. */
const AUDIO_FORMATS = [
  ...['wav', 'mp3', 'flac', 'mpeg', 'mpga', 'wave', 'x-wav', 'x-flac'],
  ...['m4a', 'x-m4a', 'mp4', 'ogg', 'oga', 'opus', 'webm', 'aac'],
] as const

const audioData: z.ZodType<MediaUrl, string> = z.string().min(1)
const inputAudio = requests.object('InputAudio', {
  data: audioData,
  format: z.enum(AUDIO_FORMATS),
})
const audioPart = requests
  .object('InputAudioPart', {
    type: z.literal('input_audio'),
    input_audio: z.union([inputAudio, audioData.describe('Extension: base64, a data URL or a URL.')]),
  })
  .transform(({ type, input_audio: audio }) => {
    if (isFields(audio)) return { type, input_audio: audio }
    const isUrl = /^\s*(https?|data):/i.test(String(audio).slice(0, 100))
    return isUrl
      ? ({ type: 'audio_url', audio_url: { url: audio }, sent: type } as const)
      : ({ type, input_audio: { data: audio, format: 'wav' }, sent: type } as const)
  })

const file = z
  .object({
    file_id: z.string().min(1, 'expected a file id').nullish(),
    file_data: mediaUrl.nullish().describe('Base64 or a base64 data URL, also of a text; as an extension, a URL.'),
    filename: z.string().nullish(),
    detail,
    pages,
    page_text: pageText,
  })
  .superRefine(({ file_id, file_data }, context) => {
    const given = [file_id, file_data].filter((source) => typeof source === 'string')
    if (given.length === 1) return
    const message = `expected ${given.length === 0 ? '' : 'only '}one of file_id and file_data`
    context.addIssue({ code: 'custom', path: ['file_id'], message })
  })
  .register(requestSchemas, { id: 'DocumentFile' })

interface FileFields {
  readonly file_data?: MediaUrl | null | undefined
  readonly filename?: string | null | undefined
  readonly pages?: string | null | undefined
}

const CHARSET = /^[^,]*;\s*charset\s*=\s*["']?([^"';,\s]+)/i
export const UNREADABLE_TEXT =
  "expected a text in UTF-8, or with its charset, as in 'data:text/plain;charset=iso-8859-1;base64,...'"

interface TextOfFile {
  /** What the model reads: the text below its name. Null if the bytes are invalid in the charset. */
  readonly text: string | null
}

/** Returns the text of a file whose data URL declares a text; null for others. */
export function textOfFile({ file_data: data, filename, pages }: FileFields): TextOfFile | null {
  if (typeof data !== 'string' || pages || !isTextUrl(data)) return null
  const bytes = bytesOf(data)
  const head = bytes?.subarray(0, HEAD_BYTES)
  // Without zero bytes, only a PDF can be valid UTF-8.
  if (!bytes || mediaType(head!) === 'application/pdf') return null
  const text = decoded(bytes, CHARSET.exec(data.slice(0, 1_000))?.[1])
  // A text may begin with the bytes of a video's header: "The wide river".
  if (text === null) return mediaType(head!) === null ? { text } : null
  return { text: filename ? `${filename}\n\n${text}` : text }
}

function bytesOf(data: string): Uint8Array | null {
  try {
    const at = locate({ type: 'base64', data }, 'file_data')
    return at.type === 'bytes' ? at.bytes : null
  } catch (error) {
    if (error instanceof ApiError) return null
    throw error
  }
}

/** A byte order mark takes precedence over the charset, and an unknown charset is ignored. */
function decoded(bytes: Uint8Array, charset = 'utf-8'): string | null {
  const marked = MARKS.find(([, mark]) => mark.every((byte, at) => bytes[at] === byte))?.[0]
  try {
    const text = decoderOf(marked ?? charset).decode(bytes)
    return text.includes('\0') ? null : text
  } catch (error) {
    if (error instanceof TypeError) return null
    throw error
  }
}

const MARKS: readonly (readonly [charset: string, mark: readonly number[]])[] = [
  ['utf-8', [0xef, 0xbb, 0xbf]],
  ['utf-16le', [0xff, 0xfe]],
  ['utf-16be', [0xfe, 0xff]],
]

function decoderOf(charset: string): InstanceType<typeof TextDecoder> {
  try {
    return new TextDecoder(charset, { fatal: true })
  } catch (error) {
    if (error instanceof RangeError) return new TextDecoder('utf-8', { fatal: true })
    throw error
  }
}

/** Returns the part that shows the text of a file; null for a file that is not text. */
function textPartOf(file: FileFields, path: string[], context: z.core.$RefinementCtx<unknown>) {
  const found = textOfFile(file)
  if (found === null) return null
  if (found.text === null) context.addIssue({ code: 'custom', path, message: UNREADABLE_TEXT })
  return { type: 'text' as const, text: found.text ?? '' }
}

const filePart = requests
  .object('FilePart', {
    type: z.literal('file'),
    file: file.nullish(),
    file_id: z.string().min(1, 'expected a file id').nullish().describe('Extension: in place of `file`.'),
  })
  .superRefine(({ file, file_id: id }, context) => {
    if (!file && typeof id !== 'string') context.addIssue({ code: 'custom', path: ['file'], message: 'it is required' })
  })
  .transform(({ type, file, file_id: id }, context) => {
    if (!file) return { type, file: { file_id: id }, sent: 'file_id' }
    return textPartOf(file, ['file', 'file_data'], context) ?? { type, file }
  })

const documentPart = requests
  .object('DocumentUrlPart', {
    type: z.literal('document_url'),
    document_url: mediaUrl,
    document_name: z.string().nullish(),
  })
  .transform(({ type: sent, document_url: url, document_name: filename }, context) => {
    const text = textPartOf({ file_data: url, filename }, [sent], context)
    return text ?? { type: 'file' as const, file: { file_data: url }, sent }
  })

export const userPart = requests.union('UserPart', 'type', [
  textPart,
  imageUrl,
  imageFileId,
  videoUrl,
  requests.object('VideoFilePart', { type: z.literal('video_file_id'), video_file_id: fileId }),
  requests.object('VideoFramesPart', { type: z.literal('video_frames'), video_frames: videoFrames }),
  audioPart,
  requests.object('AudioUrlPart', { type: z.literal('audio_url'), audio_url: url }),
  requests.object('AudioFilePart', { type: z.literal('audio_file_id'), audio_file_id: fileId }),
  filePart,
  documentPart,
])

export const userParts = z.array(userPart).min(1).max(MOST_PARTS)

/** A text or an image. */
export const toolPart = requests.union('ToolPart', 'type', [textPart, imageUrl, imageFileId])

/** A thought, in the shape of Mistral's API or of Anthropic's. */
const thinkingPart = requests
  .object('ThinkingPart', {
    type: z.literal('thinking'),
    thinking: z.union([
      z.string(),
      z
        .array(requests.object('ThoughtPart', { type: z.string(), text: z.string().nullish() }))
        .max(MOST_PARTS)
        .describe('Parts without a text are skipped.'),
    ]),
  })
  .transform(({ type, thinking }) => {
    const text = typeof thinking === 'string' ? thinking : thinking.map(({ text }) => text ?? '').join('')
    return { type, text }
  })

/** A system message may contain an example of a thought. */
const systemPart = requests.union('SystemPart', 'type', [
  textPart,
  thinkingPart.transform(({ text }) => ({ type: 'text' as const, text })),
])
const texts = z.union([z.string(), z.array(systemPart).min(1).max(MOST_PARTS)])

const calledFunction = requests.object('CalledFunction', {
  name: z.string().min(1),
  arguments: z.union([z.string(), asText(clientMap(z.unknown()))]),
})

const toolCall = requests.object('ToolCall', {
  id: z.string().min(1),
  type: z.literal('function').nullish(),
  function: calledFunction,
})

export const system = requests.object('SystemMessage', { role: z.literal('system'), content: texts })
const developer = requests.object('DeveloperMessage', { role: z.literal('developer'), content: texts })
const user = requests.object('UserMessage', { role: z.literal('user'), content: z.union([z.string(), userParts]) })
/** OpenAI's models refuse in a separate field. A model is shown it as ordinary text. */
const refusalPart = requests
  .object('RefusalPart', { type: z.literal('refusal'), refusal: z.string() })
  .transform(({ refusal }) => ({ type: 'text' as const, text: refusal }))
/** A citation in an earlier reply, in Mistral’s API. */
const referencePart = requests
  .object('ReferencePart', { type: z.literal('reference') })
  .transform(() => ({ type: 'text' as const, text: '' }))
const earlierPart = requests.union('AssistantPart', 'type', [textPart, refusalPart, thinkingPart, referencePart])
const assistant = z
  .object({
    role: z.literal('assistant'),
    content: z.union([z.string(), z.array(earlierPart).min(1).max(MOST_PARTS)]).nullish(),
    refusal: z.string().nullish(),
    reasoning_content: z.string().nullish(),
    tool_calls: z.array(toolCall).max(MOST_CALLS).nullish(),
    prefix: z
      .boolean()
      .nullish()
      .catch(undefined)
      .describe('Ignored; with `compatibility: openai`, `true` in the last message is rejected.'),
  })
  .superRefine(({ content, refusal, reasoning_content: reasoning, tool_calls: calls }, context) => {
    if ((content ?? refusal ?? reasoning ?? null) !== null || (calls ?? []).length > 0) return
    const message = 'an assistant message needs content, reasoning_content or tool_calls'
    context.addIssue({ code: 'custom', path: ['content'], message })
  })
  .register(requestSchemas, { id: 'AssistantMessage' })
  .transform(({ refusal, content: said, ...turn }) => {
    if (!Array.isArray(said)) return { ...turn, content: said ?? refusal }
    const thoughts = said.flatMap((part) => (part.type === 'thinking' ? [part.text] : []))
    const content = said.filter((part) => part.type === 'text')
    const reasoning_content = turn.reasoning_content || (thoughts.length > 0 ? thoughts.join('') : undefined)
    return { ...turn, content: content.length > 0 ? content : refusal, reasoning_content }
  })
const tool = requests.object('ToolMessage', {
  role: z.literal('tool'),
  tool_call_id: z.string().min(1),
  content: z.union([z.string(), z.array(toolPart).min(1).max(MOST_PARTS)]),
})

export const message = requests.union('Message', 'role', [system, developer, user, assistant, tool])
