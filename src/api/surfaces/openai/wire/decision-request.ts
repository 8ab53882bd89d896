import { z } from 'zod'
import { bodyFormat } from '../../../http/body/body-format.ts'
import { asText, clientMap } from '../../../http/wire/client-json.ts'
import { requestSchemas } from '../../../http/wire/components.ts'
import { limitCalls, MOST_MESSAGES, MOST_PARTS, mediaUrl, userPart } from './messages.ts'

/** Limits of OpenAI's API. */
const MOST_QUESTIONS = 400
const MOST_CHOICES = 255
const MOST_LEVELS = 10
/** Maximum `max` of a count: one question has at most a thousand replies. */
const MOST_COUNTED = 999
const LONGEST_NAME = 256

const breakpoint = z
  .strictObject({ mode: z.literal('explicit') })
  .register(requestSchemas, { id: 'DecisionCacheBreakpoint' })
  .nullish()
  .describe('Accepted and ignored: the server reuses prompts on its own.')

const text = z
  .strictObject({ type: z.literal('input_text'), text: z.string(), prompt_cache_breakpoint: breakpoint })
  .register(requestSchemas, { id: 'DecisionText' })
const image = z
  .strictObject({
    type: z.literal('input_image'),
    image_url: mediaUrl,
    detail: z.enum(['low', 'high', 'auto', 'original']).nullish(),
    prompt_cache_breakpoint: breakpoint,
  })
  .register(requestSchemas, { id: 'DecisionImage' })
const object = clientMap(z.unknown()).register(requestSchemas, { id: 'DecisionJsonObject' })
const json = z
  .strictObject({ type: z.literal('input_json'), data: asText(z.union([object, z.array(object)])) })
  .register(requestSchemas, { id: 'DecisionJson' })

/** OpenAI's parts, and those of chat messages, with video and audio. */
const part = z
  .discriminatedUnion('type', [text, image, json, ...userPart.options])
  .register(requestSchemas, { id: 'DecisionPart' })
const parts = z.array(part).min(1).max(MOST_PARTS)
const texts = z.array(text).min(1).max(MOST_PARTS)
const message = z.literal('message').optional()

const user = z
  .strictObject({ type: message, role: z.literal('user'), content: z.union([z.string(), parts]) })
  .register(requestSchemas, { id: 'DecisionUserMessage' })
const developer = z
  .strictObject({ type: message, role: z.literal('developer'), content: z.union([z.string(), texts]) })
  .register(requestSchemas, { id: 'DecisionDeveloperMessage' })
const system = z
  .strictObject({ type: message, role: z.literal('system'), content: z.union([z.string(), texts]) })
  .register(requestSchemas, { id: 'DecisionSystemMessage' })
const output = z
  .discriminatedUnion('type', [
    z
      .strictObject({ type: z.literal('output_text'), text: z.string() })
      .register(requestSchemas, { id: 'DecisionOutputText' }),
    z
      .strictObject({ type: z.literal('refusal'), refusal: z.string() })
      .register(requestSchemas, { id: 'DecisionOutputRefusal' }),
  ])
  .register(requestSchemas, { id: 'DecisionOutputPart' })
const assistant = z
  .strictObject({
    type: message,
    role: z.literal('assistant'),
    content: z.union([z.string(), z.array(output).min(1).max(MOST_PARTS)]),
    phase: z.enum(['commentary', 'final_answer']).nullish(),
  })
  .register(requestSchemas, { id: 'DecisionAssistantMessage' })

const item = { id: z.string().nullish(), status: z.enum(['in_progress', 'completed', 'incomplete']).nullish() }
const call = { ...item, call_id: z.string().min(1), name: z.string().min(1), namespace: z.string().nullish() }
const shownPart = z.discriminatedUnion('type', [text, image]).register(requestSchemas, { id: 'DecisionCallOutputPart' })
const shown = z.union([z.string(), z.array(shownPart).min(1).max(MOST_PARTS)])
const functionCall = z
  .strictObject({ type: z.literal('function_call'), ...call, arguments: z.string() })
  .register(requestSchemas, { id: 'DecisionFunctionCall' })
const functionOutput = z
  .strictObject({ type: z.literal('function_call_output'), ...item, call_id: z.string().min(1), output: shown })
  .register(requestSchemas, { id: 'DecisionFunctionCallOutput' })
const customCall = z
  .strictObject({ type: z.literal('custom_tool_call'), ...call, input: z.string() })
  .register(requestSchemas, { id: 'DecisionCustomToolCall' })
const customOutput = z
  .strictObject({ type: z.literal('custom_tool_call_output'), ...item, call_id: z.string().min(1), output: shown })
  .register(requestSchemas, { id: 'DecisionCustomToolCallOutput' })

const messages = z
  .discriminatedUnion('role', [user, developer, system, assistant])
  .register(requestSchemas, { id: 'DecisionMessage' })
const inputItem = z
  .discriminatedUnion('type', [messages, functionCall, functionOutput, customCall, customOutput])
  .register(requestSchemas, { id: 'DecisionItem' })

const inputItems = z
  .array(inputItem)
  .min(1)
  .max(MOST_MESSAGES)
  .superRefine(limitCalls(({ type }: DecisionItemBody) => type === 'function_call' || type === 'custom_tool_call'))

const instructions = z.union([z.string().min(1), parts])
const name = z.string().max(LONGEST_NAME).nullish()
const description = z.string().nullish()

const predicate = z
  .strictObject({ type: z.literal('predicate'), instructions, name })
  .register(requestSchemas, { id: 'PredicateQuestion' })

const value = z.union([z.string().refine(isNotBlank, 'expected a name'), z.boolean()])
const choice = z
  .strictObject({
    type: z.literal('choice'),
    instructions,
    name,
    choices: z
      .array(z.strictObject({ value, description }).register(requestSchemas, { id: 'DecisionChoice' }))
      .min(2)
      .max(MOST_CHOICES)
      .superRefine((choices, context) => {
        // The string 'true' differs from true.
        const again = repeated(choices.map(({ value }) => value))
        if (again !== -1) context.addIssue({ code: 'custom', path: [again, 'value'], message: 'it is given twice' })
      }),
  })
  .register(requestSchemas, { id: 'ChoiceQuestion' })

const label = z.string().refine(isNotBlank, 'expected a label')
const score = z
  .strictObject({
    type: z.literal('score'),
    instructions,
    name,
    levels: z
      .array(z.strictObject({ label, description }).register(requestSchemas, { id: 'DecisionLevel' }))
      .min(2)
      .max(MOST_LEVELS)
      .superRefine((levels, context) => {
        const again = repeated(levels.map(({ label }) => label))
        if (again !== -1) context.addIssue({ code: 'custom', path: [again, 'label'], message: 'it is given twice' })
      }),
  })
  .register(requestSchemas, { id: 'ScoreQuestion' })

const count = z
  .strictObject({
    type: z.literal('x_count'),
    instructions,
    name,
    max: z.int().min(1).max(MOST_COUNTED).nullish().describe('The largest possible answer; 20 by default.'),
  })
  .register(requestSchemas, { id: 'CountQuestion' })

const sought = z.string().refine(isNotBlank, 'expected what to look for')
const box = z
  .strictObject({ type: z.literal('x_box'), instructions: sought, name })
  .register(requestSchemas, { id: 'BoxQuestion' })
const point = z
  .strictObject({ type: z.literal('x_point'), instructions: sought, name })
  .register(requestSchemas, { id: 'PointQuestion' })
const clip = z
  .strictObject({ type: z.literal('x_clip'), instructions: sought, name })
  .register(requestSchemas, { id: 'ClipQuestion' })

const question = z
  .discriminatedUnion('type', [predicate, choice, score, count, box, point, clip])
  .register(requestSchemas, { id: 'DecisionQuestion' })

/** Body of `POST /v1/decisions`. Unknown keys are rejected. */
export const decisionRequest = z
  .strictObject({
    model: z.string(),
    input: z.union([z.string(), inputItems]),
    questions: z.array(question).min(1).max(MOST_QUESTIONS),
    x_calibrated: z
      .boolean()
      .nullish()
      .describe("Whether to apply the temperatures of the model's card. True by default; false is for fitting them."),
    prompt_cache_key: z.string().nullish().describe('Accepted and ignored.'),
    prompt_cache_options: z
      .strictObject({ mode: z.enum(['implicit', 'explicit']).nullish(), ttl: z.string().nullish() })
      .register(requestSchemas, { id: 'DecisionCacheOptions' })
      .nullish()
      .describe('Accepted and ignored.'),
    safety_identifier: z.string().nullish().describe('Accepted and ignored.'),
  })
  .register(requestSchemas, { id: 'DecisionRequest' })

export const decisionBody = bodyFormat(import.meta.url, 'decisionRequest', decisionRequest)

export type DecisionRequestBody = z.output<typeof decisionRequest>
export type DecisionItemBody = z.output<typeof inputItem>
export type DecisionPartBody = z.output<typeof part>
export type DecisionQuestionBody = z.output<typeof question>

function isNotBlank(text: string): boolean {
  return text.trim() !== ''
}

/** Returns the index of the first repeated value; -1 for none. */
function repeated(values: readonly unknown[]): number {
  const seen = new Set()
  return values.findIndex((value) => seen.size === seen.add(value).size)
}
