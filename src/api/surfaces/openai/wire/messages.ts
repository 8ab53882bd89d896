import { z } from 'zod'
import type { MediaUrl } from '../../../../conversation/request/message.ts'
import { IMAGE_DETAILS } from '../../../../media/image-detail.ts'
import { requestSchemas } from '../../../http/wire/components.ts'

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
const url = z.object({ url: mediaUrl }).register(requestSchemas, { id: 'MediaUrl' })
const fileId = z
  .object({ file_id: z.string().min(1, 'expected a file id') })
  .register(requestSchemas, { id: 'FileReference' })

/** Other values count as left out: the contract ignores invalid optional fields. */
const detail = z.enum(IMAGE_DETAILS).optional().catch(undefined)
const imageUrlWithDetail = url.extend({ detail }).register(requestSchemas, { id: 'ImageUrl' })
const imageFile = fileId.extend({ detail }).register(requestSchemas, { id: 'ImageFileReference' })

export const textPart = z
  .object({ type: z.literal('text'), text: z.string() })
  .register(requestSchemas, { id: 'TextPart' })
const imageUrl = z
  .object({ type: z.literal('image_url'), image_url: imageUrlWithDetail })
  .register(requestSchemas, { id: 'ImageUrlPart' })
const imageFileId = z
  .object({ type: z.literal('image_file_id'), image_file_id: imageFile })
  .register(requestSchemas, { id: 'ImageFilePart' })

const videoFrame = z
  .object({ image_url: url, timestamp_ms: z.int().min(0) })
  .register(requestSchemas, { id: 'VideoFrame' })

const videoFrames = z
  .object({
    frames: z
      .array(videoFrame)
      .min(2)
      .max(256)
      .superRefine((frames, context) => {
        const at = frames.findIndex((frame, i) => i > 0 && frame.timestamp_ms < frames[i - 1]!.timestamp_ms)
        if (at === -1) return
        context.addIssue({
          code: 'custom',
          path: [at, 'timestamp_ms'],
          message: 'expected timestamps that do not decrease',
        })
      }),
  })
  .register(requestSchemas, { id: 'VideoFrames' })

const audioData: z.ZodType<MediaUrl, string> = z.string().min(1)
const inputAudio = z
  .object({ data: audioData, format: z.enum(['wav', 'mp3', 'flac', 'mpeg', 'mpga', 'wave', 'x-wav', 'x-flac']) })
  .register(requestSchemas, { id: 'InputAudio' })

export const userPart = z
  .discriminatedUnion('type', [
    textPart,
    imageUrl,
    imageFileId,
    z.object({ type: z.literal('video_url'), video_url: url }).register(requestSchemas, { id: 'VideoUrlPart' }),
    z
      .object({ type: z.literal('video_file_id'), video_file_id: fileId })
      .register(requestSchemas, { id: 'VideoFilePart' }),
    z
      .object({ type: z.literal('video_frames'), video_frames: videoFrames })
      .register(requestSchemas, { id: 'VideoFramesPart' }),
    z
      .object({ type: z.literal('input_audio'), input_audio: inputAudio })
      .register(requestSchemas, { id: 'InputAudioPart' }),
    z.object({ type: z.literal('audio_url'), audio_url: url }).register(requestSchemas, { id: 'AudioUrlPart' }),
    z
      .object({ type: z.literal('audio_file_id'), audio_file_id: fileId })
      .register(requestSchemas, { id: 'AudioFilePart' }),
  ])
  .register(requestSchemas, { id: 'UserPart' })

export const userParts = z.array(userPart).min(1).max(MOST_PARTS)

const toolPart = z
  .discriminatedUnion('type', [textPart, imageUrl, imageFileId])
  .register(requestSchemas, { id: 'ToolPart' })

const texts = z.union([z.string(), z.array(textPart).min(1).max(MOST_PARTS)])

const calledFunction = z
  .object({ name: z.string().min(1), arguments: z.string() })
  .register(requestSchemas, { id: 'CalledFunction' })

const toolCall = z
  .object({
    id: z.string().min(1),
    type: z.literal('function'),
    function: calledFunction,
  })
  .register(requestSchemas, { id: 'ToolCall' })

const system = z.object({ role: z.literal('system'), content: texts }).register(requestSchemas, { id: 'SystemMessage' })
const developer = z
  .object({ role: z.literal('developer'), content: texts })
  .register(requestSchemas, { id: 'DeveloperMessage' })
const user = z
  .object({ role: z.literal('user'), content: z.union([z.string(), userParts]) })
  .register(requestSchemas, { id: 'UserMessage' })
const assistant = z
  .object({
    role: z.literal('assistant'),
    content: texts.nullish(),
    reasoning_content: z.string().nullish(),
    tool_calls: z.array(toolCall).max(MOST_CALLS).nullish(),
  })
  .superRefine((message, context) => {
    const empty =
      (message.content ?? null) === null &&
      (message.reasoning_content ?? null) === null &&
      (message.tool_calls ?? []).length === 0
    if (!empty) return
    context.addIssue({
      code: 'custom',
      path: ['content'],
      message: 'an assistant message needs content, reasoning_content or tool_calls',
    })
  })
  .register(requestSchemas, { id: 'AssistantMessage' })
const tool = z
  .object({
    role: z.literal('tool'),
    tool_call_id: z.string().min(1),
    content: z.union([z.string(), z.array(toolPart).min(1).max(MOST_PARTS)]),
  })
  .register(requestSchemas, { id: 'ToolMessage' })

export const message = z
  .discriminatedUnion('role', [system, developer, user, assistant, tool])
  .register(requestSchemas, { id: 'Message' })
