import { z } from 'zod'
import { bodyFormat } from '../../../http/body/body-format.ts'
import { asText, clientMap } from '../../../http/wire/client-json.ts'
import { requestSchemas, requests } from '../../../http/wire/components.ts'
import { limitCalls, MOST_MESSAGES, MOST_PARTS, mediaUrl, userPart } from './messages.ts'

/** Limits of OpenAI's API. */
const MOST_QUESTIONS = 400
const MOST_CHOICES = 255
const MOST_LEVELS = 10
/** Maximum `max` of a count: one question has at most a thousand replies. */
const MOST_COUNTED = 999
const LONGEST_NAME = 256

const breakpoint = requests
  .strictObject('DecisionCacheBreakpoint', { mode: z.literal('explicit') })
  .nullish()
  .describe('Accepted and ignored: the server reuses prompts on its own.')

const text = requests.strictObject('DecisionText', {
  type: z.literal('input_text'),
  text: z.string(),
  prompt_cache_breakpoint: breakpoint,
})
const image = requests.strictObject('DecisionImage', {
  type: z.literal('input_image'),
  image_url: mediaUrl,
  detail: z.enum(['low', 'high', 'auto', 'original']).nullish(),
  prompt_cache_breakpoint: breakpoint,
})
const object = clientMap(z.unknown()).register(requestSchemas, { id: 'DecisionJsonObject' })
const json = requests.strictObject('DecisionJson', {
  type: z.literal('input_json'),
  data: asText(z.union([object, z.array(object)])),
})

/** OpenAI's parts, and those of chat messages, with video and audio. */
const part = requests.union('DecisionPart', 'type', [text, image, json, ...userPart.options])
const parts = z.array(part).min(1).max(MOST_PARTS)
const texts = z.array(text).min(1).max(MOST_PARTS)
const message = z.literal('message').nullish()

const messageOf = <Role extends string, Parts extends z.ZodType>(id: string, role: Role, parts: Parts) =>
  requests.strictObject(id, { type: message, role: z.literal(role), content: z.union([z.string(), parts]) })
const user = messageOf('DecisionUserMessage', 'user', parts)
const developer = messageOf('DecisionDeveloperMessage', 'developer', texts)
const system = messageOf('DecisionSystemMessage', 'system', texts)
const output = requests.union('DecisionOutputPart', 'type', [
  requests.strictObject('DecisionOutputText', { type: z.literal('output_text'), text: z.string() }),
  requests.strictObject('DecisionOutputRefusal', { type: z.literal('refusal'), refusal: z.string() }),
])
const assistant = requests.strictObject('DecisionAssistantMessage', {
  type: message,
  role: z.literal('assistant'),
  content: z.union([z.string(), z.array(output).min(1).max(MOST_PARTS)]),
  phase: z.enum(['commentary', 'final_answer']).nullish(),
})

const item = { id: z.string().nullish(), status: z.enum(['in_progress', 'completed', 'incomplete']).nullish() }
const call = { ...item, call_id: z.string().min(1), name: z.string().min(1), namespace: z.string().nullish() }
const shownPart = requests.union('DecisionCallOutputPart', 'type', [text, image])
const shown = z.union([z.string(), z.array(shownPart).min(1).max(MOST_PARTS)])
const outputOf = <Type extends string>(id: string, type: Type) =>
  requests.strictObject(id, { type: z.literal(type), ...item, call_id: z.string().min(1), output: shown })
const functionCall = requests.strictObject('DecisionFunctionCall', {
  type: z.literal('function_call'),
  ...call,
  arguments: z.string(),
})
const functionOutput = outputOf('DecisionFunctionCallOutput', 'function_call_output')
const customCall = requests.strictObject('DecisionCustomToolCall', {
  type: z.literal('custom_tool_call'),
  ...call,
  input: z.string(),
})
const customOutput = outputOf('DecisionCustomToolCallOutput', 'custom_tool_call_output')

const messages = requests.union('DecisionMessage', 'role', [user, developer, system, assistant])
const inputItem = requests.union('DecisionItem', 'type', [
  messages,
  functionCall,
  functionOutput,
  customCall,
  customOutput,
])

const inputItems = z
  .array(inputItem)
  .min(1)
  .max(MOST_MESSAGES)
  .superRefine(limitCalls(({ type }: DecisionItemBody) => type === 'function_call' || type === 'custom_tool_call'))

const instructions = z.union([z.string().min(1), parts])
const name = z.string().max(LONGEST_NAME).nullish()
const description = z.string().nullish()

export const predicate = requests.strictObject('PredicateQuestion', {
  type: z.literal('predicate'),
  instructions,
  name,
})

const value = z.union([z.string().refine(isNotBlank, 'expected a name'), z.boolean()])
export const choice = requests.strictObject('ChoiceQuestion', {
  type: z.literal('choice'),
  instructions,
  name,
  choices: z
    .array(requests.strictObject('DecisionChoice', { value, description }))
    .min(2)
    .max(MOST_CHOICES)
    .superRefine((choices, context) => {
      // The string 'true' differs from true.
      const again = repeated(choices.map(({ value }) => value))
      if (again !== -1) context.addIssue({ code: 'custom', path: [again, 'value'], message: 'it is given twice' })
    }),
})

const label = z.string().refine(isNotBlank, 'expected a label')
export const score = requests.strictObject('ScoreQuestion', {
  type: z.literal('score'),
  instructions,
  name,
  levels: z
    .array(requests.strictObject('DecisionLevel', { label, description }))
    .min(2)
    .max(MOST_LEVELS)
    .superRefine((levels, context) => {
      const again = repeated(levels.map(({ label }) => label))
      if (again !== -1) context.addIssue({ code: 'custom', path: [again, 'label'], message: 'it is given twice' })
    }),
})

export const count = requests.strictObject('CountQuestion', {
  type: z.literal('x_count'),
  instructions,
  name,
  max: z.int().min(1).max(MOST_COUNTED).nullish().describe('The largest possible answer; 20 by default.'),
})

const sought = z.string().refine(isNotBlank, 'expected what to look for')
const box = requests.strictObject('BoxQuestion', { type: z.literal('x_box'), instructions: sought, name })
const point = requests.strictObject('PointQuestion', { type: z.literal('x_point'), instructions: sought, name })
const clip = requests.strictObject('ClipQuestion', { type: z.literal('x_clip'), instructions: sought, name })

const question = requests.union('DecisionQuestion', 'type', [predicate, choice, score, count, box, point, clip])

/** Body of `POST /v1/decisions`. Unknown keys are rejected. */
export const decisionRequest = requests.strictObject('DecisionRequest', {
  model: z.string(),
  input: z.union([z.string(), inputItems]),
  questions: z.array(question).min(1).max(MOST_QUESTIONS),
  x_calibrated: z
    .boolean()
    .nullish()
    .describe(
      "Whether to apply the temperatures and the fit of detection of the model's card. True by default; false is for fitting them.",
    ),
  prompt_cache_key: z.string().nullish().describe('Accepted and ignored.'),
  prompt_cache_options: requests
    .strictObject('DecisionCacheOptions', {
      mode: z.enum(['implicit', 'explicit']).nullish(),
      ttl: z.string().nullish(),
    })
    .nullish()
    .describe('Accepted and ignored.'),
  safety_identifier: z.string().nullish().describe('Accepted and ignored.'),
})

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
