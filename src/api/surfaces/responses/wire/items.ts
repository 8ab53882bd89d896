import { z } from 'zod'
import { isRecord } from '../../../../lib/json/parse-json.ts'
import { requestSchemas, requests } from '../../../http/wire/components.ts'
import { detail, MOST_PARTS, mediaUrl, pages, pageText, userPart } from '../../openai/wire/messages.ts'

const fileId = z.string().min(1, 'expected a file id').nullish()

const text = requests.object('ResponseInputText', { type: z.literal('input_text'), text: z.string() })

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
    file_data: mediaUrl.nullish().describe('Base64, or a base64 data URL, of a text too.'),
    filename: z.string().nullish(),
    detail,
    pages,
    page_text: pageText,
  })
  .superRefine(({ file_id, file_url, file_data }, context) => {
    const given = [file_id, file_url, file_data].filter((source) => typeof source === 'string')
    if (given.length === 1) return
    const message = `expected ${given.length === 0 ? '' : 'only '}one of file_id, file_url and file_data`
    context.addIssue({ code: 'custom', path: ['file_id'], message })
  })
  .register(requestSchemas, { id: 'ResponseInputFile' })

const video = requests.object('ResponseInputVideo', { type: z.literal('input_video'), video_url: mediaUrl })

const outputText = requests.object('ResponseEarlierText', { type: z.literal('output_text'), text: z.string() })
const refusal = requests.object('ResponseEarlierRefusal', { type: z.literal('refusal'), refusal: z.string() })

/** The parts of the Responses API, and those of chat messages for frames and audio. */
const anyUserPart = requests.union('ResponseUserPart', 'type', [text, image, file, video, ...userPart.options])
const userParts = z.array(anyUserPart).min(1).max(MOST_PARTS)
const texts = z.array(text).min(1).max(MOST_PARTS)
const earlierPart = requests.union('ResponseAssistantPart', 'type', [outputText, refusal, text])
const earlierParts = z.array(earlierPart).min(1).max(MOST_PARTS)

const item = {
  id: z.string().nullish(),
  status: z.enum(['in_progress', 'completed', 'incomplete']).nullish(),
}
const message = { type: z.literal('message').nullish(), ...item }

const messageOf = <Role extends string, Parts extends z.ZodType>(id: string, role: Role, parts: Parts) =>
  requests.object(id, { ...message, role: z.literal(role), content: z.union([z.string(), parts]) })
const user = messageOf('ResponseUserMessage', 'user', userParts)
const system = messageOf('ResponseSystemMessage', 'system', texts)
const developer = messageOf('ResponseDeveloperMessage', 'developer', texts)
const assistant = messageOf('ResponseAssistantMessage', 'assistant', earlierParts)

const functionCall = requests.object('ResponseFunctionCall', {
  type: z.literal('function_call'),
  ...item,
  call_id: z.string().min(1),
  name: z.string().min(1),
  namespace: z.string().nullish(),
  arguments: z.string(),
})

const shownPart = requests.union('ResponseCallOutputPart', 'type', [text, image, file])
const shown = z.array(shownPart).min(1).max(MOST_PARTS)
const functionCallOutput = requests.object('ResponseFunctionCallOutput', {
  type: z.literal('function_call_output'),
  ...item,
  call_id: z.string().min(1),
  output: z.union([z.string(), shown]),
})

const summary = requests.object('ResponseReasoningSummary', { type: z.literal('summary_text'), text: z.string() })
const thought = requests.object('ResponseReasoningText', { type: z.literal('reasoning_text'), text: z.string() })
const reasoning = requests.object('ResponseReasoning', {
  type: z.literal('reasoning'),
  ...item,
  summary: z.array(summary).max(MOST_PARTS).nullish(),
  content: z.array(thought).max(MOST_PARTS).nullish(),
  encrypted_content: z.string().nullish().describe('Read where the thought is in no other field.'),
})

const reference = requests.object('ResponseItemReference', { type: z.literal('item_reference'), id: z.string().min(1) })

/** An item of the input. */
export const inputItem = z.preprocess(
  (item) => (isUntypedReference(item) ? { ...item, type: 'item_reference' } : item),
  requests.union('ResponseItem', 'type', [
    requests.union('ResponseMessage', 'role', [user, system, developer, assistant]),
    functionCall,
    functionCallOutput,
    reasoning,
    reference,
  ]),
)

/** OpenAI's clients may leave out the type of a reference, as that of a message. It has nothing but an id. */
function isUntypedReference(item: unknown): item is object {
  if (!isRecord(item)) return false
  const { id, type, ...rest } = item
  return id !== undefined && (type ?? null) === null && Object.keys(rest).length === 0
}

export type InputItemBody = z.output<typeof inputItem>
type ReferenceBody = z.output<typeof reference>
/** An item that is not a reference. */
export type ItemBody = Exclude<InputItemBody, ReferenceBody>
export type UserPartBody = z.output<typeof userParts>[number]
export type InputFileBody = z.output<typeof file>
