import { z } from 'zod'
import { IMAGE_DETAILS } from '../../../../media/image-detail.ts'
import { requestSchemas } from '../../../http/wire/components.ts'
import { MOST_PARTS, mediaUrl, userPart } from '../../openai/wire/messages.ts'

/** Other values count as left out, as in chats. */
const detail = z.enum(IMAGE_DETAILS).optional().catch(undefined)
const fileId = z.string().min(1, 'expected a file id').nullish()

const text = z
  .object({ type: z.literal('input_text'), text: z.string() })
  .register(requestSchemas, { id: 'ResponseInputText' })

const image = z
  .object({ type: z.literal('input_image'), image_url: mediaUrl.nullish(), file_id: fileId, detail })
  .superRefine(({ image_url, file_id }, context) => {
    const given = [image_url, file_id].filter((source) => typeof source === 'string')
    if (given.length === 1) return
    const message = given.length === 0 ? 'expected image_url or file_id' : 'expected only one of image_url and file_id'
    context.addIssue({ code: 'custom', path: ['image_url'], message })
  })
  .register(requestSchemas, { id: 'ResponseInputImage' })

const fileUrl = z.string().min(1, 'expected a URL')
const file = z
  .object({
    type: z.literal('input_file'),
    file_id: fileId,
    file_url: fileUrl.nullish(),
    file_data: mediaUrl.nullish().describe('A base64 data URL.'),
    filename: z.string().nullish(),
    detail,
  })
  .superRefine(({ file_id, file_url, file_data }, context) => {
    const given = [file_id, file_url, file_data].filter((source) => typeof source === 'string')
    if (given.length === 1) return
    const message = `expected ${given.length === 0 ? '' : 'only '}one of file_id, file_url and file_data`
    context.addIssue({ code: 'custom', path: ['file_id'], message })
  })
  .register(requestSchemas, { id: 'ResponseInputFile' })

const video = z
  .object({ type: z.literal('input_video'), video_url: mediaUrl })
  .register(requestSchemas, { id: 'ResponseInputVideo' })

const outputText = z
  .object({ type: z.literal('output_text'), text: z.string() })
  .register(requestSchemas, { id: 'ResponseEarlierText' })
const refusal = z
  .object({ type: z.literal('refusal'), refusal: z.string() })
  .register(requestSchemas, { id: 'ResponseEarlierRefusal' })

/** The parts of the Responses API, and those of chat messages for frames and audio. */
const anyUserPart = z
  .discriminatedUnion('type', [text, image, file, video, ...userPart.options])
  .register(requestSchemas, { id: 'ResponseUserPart' })
const userParts = z.array(anyUserPart).min(1).max(MOST_PARTS)
const texts = z.array(text).min(1).max(MOST_PARTS)
const earlierPart = z
  .discriminatedUnion('type', [outputText, refusal, text])
  .register(requestSchemas, { id: 'ResponseAssistantPart' })
const earlierParts = z.array(earlierPart).min(1).max(MOST_PARTS)

const item = {
  id: z.string().nullish(),
  status: z.enum(['in_progress', 'completed', 'incomplete']).nullish(),
}
const message = { type: z.literal('message').optional(), ...item }

const user = z
  .object({ ...message, role: z.literal('user'), content: z.union([z.string(), userParts]) })
  .register(requestSchemas, { id: 'ResponseUserMessage' })
const system = z
  .object({ ...message, role: z.literal('system'), content: z.union([z.string(), texts]) })
  .register(requestSchemas, { id: 'ResponseSystemMessage' })
const developer = z
  .object({ ...message, role: z.literal('developer'), content: z.union([z.string(), texts]) })
  .register(requestSchemas, { id: 'ResponseDeveloperMessage' })
const assistant = z
  .object({ ...message, role: z.literal('assistant'), content: z.union([z.string(), earlierParts]) })
  .register(requestSchemas, { id: 'ResponseAssistantMessage' })

const functionCall = z
  .object({
    type: z.literal('function_call'),
    ...item,
    call_id: z.string().min(1),
    name: z.string().min(1),
    arguments: z.string(),
  })
  .register(requestSchemas, { id: 'ResponseFunctionCall' })

const shownPart = z
  .discriminatedUnion('type', [text, image, file])
  .register(requestSchemas, { id: 'ResponseCallOutputPart' })
const shown = z.array(shownPart).min(1).max(MOST_PARTS)
const functionCallOutput = z
  .object({
    type: z.literal('function_call_output'),
    ...item,
    call_id: z.string().min(1),
    output: z.union([z.string(), shown]),
  })
  .register(requestSchemas, { id: 'ResponseFunctionCallOutput' })

const summary = z
  .object({ type: z.literal('summary_text'), text: z.string() })
  .register(requestSchemas, { id: 'ResponseReasoningSummary' })
const thought = z
  .object({ type: z.literal('reasoning_text'), text: z.string() })
  .register(requestSchemas, { id: 'ResponseReasoningText' })
const reasoning = z
  .object({
    type: z.literal('reasoning'),
    ...item,
    summary: z.array(summary).max(MOST_PARTS).nullish(),
    content: z.array(thought).max(MOST_PARTS).nullish(),
  })
  .register(requestSchemas, { id: 'ResponseReasoning' })

const reference = z
  .object({ type: z.literal('item_reference'), id: z.string().min(1) })
  .register(requestSchemas, { id: 'ResponseItemReference' })

/** An item of the input. */
export const inputItem = z
  .discriminatedUnion('type', [
    z
      .discriminatedUnion('role', [user, system, developer, assistant])
      .register(requestSchemas, { id: 'ResponseMessage' }),
    functionCall,
    functionCallOutput,
    reasoning,
    reference,
  ])
  .register(requestSchemas, { id: 'ResponseItem' })

export type InputItemBody = z.output<typeof inputItem>
type ReferenceBody = z.output<typeof reference>
/** An item that is not a reference. */
export type ItemBody = Exclude<InputItemBody, ReferenceBody>
export type UserPartBody = z.output<typeof userParts>[number]
export type InputFileBody = z.output<typeof file>
