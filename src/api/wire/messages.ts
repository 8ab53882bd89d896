import { z } from 'zod'

/** Where the contract is silent on a part's shape, the object stands under the key that `type` names. */
const url = z.object({ url: z.string().min(1, 'expected a URL') })
const fileId = z.object({ file_id: z.string().min(1, 'expected a file id') })

export const textPart = z.object({ type: z.literal('text'), text: z.string() })
const imageUrl = z.object({ type: z.literal('image_url'), image_url: url })
const imageFileId = z.object({ type: z.literal('image_file_id'), image_file_id: fileId })

const videoFrames = z.object({
  frames: z
    .array(z.object({ image_url: url, timestamp_ms: z.int().min(0) }))
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

const inputAudio = z.object({ data: z.string().min(1), format: z.enum(['wav', 'mp3', 'flac']) })

const userPart = z.discriminatedUnion('type', [
  textPart,
  imageUrl,
  imageFileId,
  z.object({ type: z.literal('video_url'), video_url: url }),
  z.object({ type: z.literal('video_file_id'), video_file_id: fileId }),
  z.object({ type: z.literal('video_frames'), video_frames: videoFrames }),
  z.object({ type: z.literal('input_audio'), input_audio: inputAudio }),
  z.object({ type: z.literal('audio_url'), audio_url: url }),
  z.object({ type: z.literal('audio_file_id'), audio_file_id: fileId }),
])

export const userParts = z.array(userPart).min(1)

const toolPart = z.discriminatedUnion('type', [textPart, imageUrl, imageFileId])

const texts = z.union([z.string(), z.array(textPart).min(1)])

const toolCall = z.object({
  id: z.string().min(1),
  type: z.literal('function'),
  function: z.object({ name: z.string().min(1), arguments: z.string() }),
})

const system = z.object({ role: z.literal('system'), content: texts })
const developer = z.object({ role: z.literal('developer'), content: texts })
const user = z.object({ role: z.literal('user'), content: z.union([z.string(), userParts]) })
const assistant = z
  .object({
    role: z.literal('assistant'),
    content: texts.nullish(),
    reasoning_content: z.string().nullish(),
    tool_calls: z.array(toolCall).nullish(),
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
const tool = z.object({
  role: z.literal('tool'),
  tool_call_id: z.string().min(1),
  content: z.union([z.string(), z.array(toolPart).min(1)]),
})

export const message = z.discriminatedUnion('role', [system, developer, user, assistant, tool])
