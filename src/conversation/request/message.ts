import { type Path, within } from '../../lib/errors/param.ts'
import type { GridRegion } from '../../media/coordinates.ts'
import type { ImageDetail } from '../../media/image-detail.ts'
import type { InlineMedia } from '../../media/inline-media.ts'
import type { LiveFrame } from '../../media/live/live-frame.ts'

/** A message in the contract's format. Errors refer to positions in it by `param`, so it keeps the wire's names. */
export type Message = SystemMessage | UserMessage | AssistantMessage | ToolMessage

export interface SystemMessage {
  readonly role: 'system' | 'developer'
  readonly content: string | readonly TextContent[]
}

export interface UserMessage {
  readonly role: 'user'
  readonly content: string | readonly ContentPart[]
}

export interface AssistantMessage {
  readonly role: 'assistant'
  readonly content?: string | readonly TextContent[] | null | undefined
  readonly reasoning_content?: string | null | undefined
  readonly tool_calls?: readonly ToolCall[] | null | undefined
}

export interface ToolCall {
  readonly id: string
  readonly function: {
    readonly name: string
    /** JSON text, as the model wrote it. */
    readonly arguments: string
  }
}

export interface ToolMessage {
  readonly role: 'tool'
  readonly tool_call_id: string
  readonly content: string | readonly ContentPart[]
}

export interface TextContent {
  readonly type: 'text'
  readonly text: string
}

/** A URL of media, a data URL, or the bytes of a data URL that is already decoded. */
export type MediaUrl = string | InlineMedia | LiveFrame

type Url = { readonly url: MediaUrl }

export interface VideoFramesContent {
  readonly type: 'video_frames'
  readonly video_frames: {
    readonly frames: readonly { readonly image_url: Url; readonly timestamp_ms: number }[]
  }
}

type FileId = { readonly file_id: string }

type Detail = { readonly detail?: ImageDetail | undefined }

/** A PDF. The model sees its pages: first of all, it is replaced by a part for each page. */
export interface DocumentContent {
  readonly type: 'file'
  /** Exactly one of: an uploaded file; base64, a data URL or a URL; a URL. */
  readonly file: {
    readonly file_id?: string | null | undefined
    readonly file_data?: MediaUrl | null | undefined
    readonly file_url?: MediaUrl | null | undefined
    /** The selection of pages, for `pagesIn`; all by default. */
    readonly pages?: string | null | undefined
    /** Whether each page is followed by the document's embedded text of it. */
    readonly page_text?: boolean | null | undefined
  } & Detail
  /** The page, from 1, in a part for one page; absent for the whole document. */
  readonly page?: number
}

export type MediaContent =
  | {
      readonly type: 'image_url'
      readonly image_url: Url & Detail
      /** The part of the image that the model sees; all of it by default. Clients cannot send it. */
      readonly region?: GridRegion
    }
  | { readonly type: 'image_file_id'; readonly image_file_id: FileId & Detail }
  | { readonly type: 'video_url'; readonly video_url: Url }
  | { readonly type: 'video_file_id'; readonly video_file_id: FileId }
  | VideoFramesContent
  | { readonly type: 'input_audio'; readonly input_audio: { readonly data: MediaUrl; readonly format: string } }
  | { readonly type: 'audio_url'; readonly audio_url: Url }
  | { readonly type: 'audio_file_id'; readonly audio_file_id: FileId }
  | DocumentContent

/** A single image, or a page. */
export type ImageContent = Extract<MediaContent, { type: 'image_url' | 'image_file_id' | 'file' }>

export type ContentPart = TextContent | MediaContent

export function isImage(part: ContentPart): part is ImageContent {
  return part.type === 'image_url' || part.type === 'image_file_id' || part.type === 'file'
}

export type Modality = 'image' | 'video' | 'audio'

const MODALITY: Readonly<Record<MediaContent['type'], Modality>> = {
  image_url: 'image',
  image_file_id: 'image',
  video_url: 'video',
  video_frames: 'video',
  video_file_id: 'video',
  input_audio: 'audio',
  audio_url: 'audio',
  audio_file_id: 'audio',
  file: 'image',
}

export function modalityOf({ type }: MediaContent): Modality {
  return MODALITY[type]
}

/** How much a part counts towards the request's media limit. A video counts once for any number of frames. */
export function mediaCount(part: MediaContent): number {
  return part.type === 'video_frames' ? part.video_frames.frames.length : 1
}

export interface PlacedMessage {
  readonly message: Message
  /** The message's place in the request: `messages[0]`, `context[2]`, `prompts[1]`. */
  readonly param: Path
  /** The parameters of the parts of its content, if they are not within the message. */
  readonly places?: readonly Path[]
}

export function placeMessages(messages: readonly Message[], list: 'messages' | 'context'): PlacedMessage[] {
  return messages.map((message, index) => ({ message, param: [list, index] }))
}

/** The parts of a message and their parameters. A plain string is one text part. */
export function* partsOf({ message, param, places }: PlacedMessage): Generator<{ part: ContentPart; param: Path }> {
  const { content } = message
  const own = within(param, 'content')
  if (typeof content === 'string') yield { part: { type: 'text', text: content }, param: places?.[0] ?? own }
  else {
    for (const [index, part] of (content ?? []).entries()) yield { part, param: places?.[index] ?? within(own, index) }
  }
}

/** All media of the messages. An asset's index is its position here. */
export function mediaIn(messages: readonly PlacedMessage[]): { part: MediaContent; param: Path }[] {
  return messages.flatMap((placed) =>
    [...partsOf(placed)].flatMap(({ part, param }) => (part.type === 'text' ? [] : [{ part, param }])),
  )
}
