import { z } from 'zod'
import { responseSchemas, responses } from '../../../http/wire/components.ts'
import { tokenLogProb } from '../../openai/wire/chat-response.ts'
import { annotation } from './annotations.ts'

const tokens = z.int().min(0)
const itemStatus = z.enum(['in_progress', 'completed', 'incomplete'])

const outputText = responses.object('ResponseOutputText', {
  type: z.literal('output_text'),
  text: z.string(),
  annotations: z.array(annotation),
  logprobs: z.array(tokenLogProb).describe('Empty unless the request asks for them.'),
})

const message = responses.object('ResponseOutputMessage', {
  id: z.string(),
  type: z.literal('message'),
  status: itemStatus,
  role: z.literal('assistant'),
  content: z.array(outputText),
})

const reasoningText = responses.object('ResponseReasoningContent', {
  type: z.literal('reasoning_text'),
  text: z.string(),
})
const summaryText = responses.object('ResponseSummaryContent', { type: z.literal('summary_text'), text: z.string() })
const reasoning = responses.object('ResponseReasoningItem', {
  id: z.string(),
  type: z.literal('reasoning'),
  summary: z.array(summaryText).describe('The thought, if `reasoning.summary` asks for one.'),
  content: z.array(reasoningText).describe('The thought otherwise.'),
  encrypted_content: z.string().optional().describe('The thought for clients that keep no other; not encrypted.'),
  status: itemStatus,
})

const functionCall = responses.object('ResponseFunctionCallItem', {
  id: z.string(),
  type: z.literal('function_call'),
  status: itemStatus,
  call_id: z.string(),
  name: z.string(),
  namespace: z.string().optional().describe('Of a function in a namespace.'),
  arguments: z.string(),
})

export const outputItem = responses.union('ResponseOutputItem', 'type', [message, reasoning, functionCall])

const inputDetails = responses.object('ResponseInputTokensDetails', {
  cached_tokens: tokens.describe('Tokens that earlier requests had computed.'),
  cache_write_tokens: tokens.describe('Always 0: caching costs nothing.'),
  image_tokens: tokens,
  audio_tokens: tokens,
})
const outputDetails = responses.object('ResponseOutputTokensDetails', { reasoning_tokens: tokens })
const usage = responses.object('ResponseUsage', {
  input_tokens: tokens,
  input_tokens_details: inputDetails,
  output_tokens: tokens,
  output_tokens_details: outputDetails,
  total_tokens: tokens,
})

const error = responses.object('ResponseError', { code: z.string(), message: z.string() })
const incomplete = responses.object('ResponseIncompleteDetails', {
  reason: z.string().describe('`max_output_tokens`; `tool_error` or `tool_limit` of the focus tool.'),
})

const json = z.record(z.string(), z.unknown()).register(responseSchemas, { id: 'ResponseJsonObject' })
const functionTool = responses.object('ResponseTool', {
  type: z.literal('function'),
  name: z.string(),
  description: z.string().nullable(),
  parameters: json.nullable(),
  strict: z.boolean().nullable(),
})
const namespaceTool = responses.object('ResponseNamespace', {
  type: z.literal('namespace'),
  name: z.string(),
  description: z.string().nullable(),
  tools: z.array(functionTool),
})
const tool = responses.union('ResponseListedTool', 'type', [functionTool, namespaceTool])
// Generators give the name `ResponseToolChoice` to the union that it is part of.
const namedFunction = responses.object('ResponseChosenFunction', { type: z.literal('function'), name: z.string() })

const allowedTools = responses.object('ResponseChosenTools', {
  type: z.literal('allowed_tools'),
  mode: z.enum(['auto', 'required']),
  tools: z.array(
    responses.object('ResponseChosenTool', {
      type: z.string(),
      name: z.string().nullable().optional(),
      server_label: z.string().nullable().optional(),
    }),
  ),
})
const chosen = responses.union('ResponseChosenFunctions', 'type', [namedFunction, allowedTools])

const textFormat = responses.object('ResponseFormat', {
  type: z.enum(['text', 'json_schema', 'json_object']),
  name: z.string().optional(),
  description: z.string().nullable().optional(),
  schema: z.unknown().optional(),
  strict: z.boolean().optional(),
})
const text = responses.object('ResponseText', { format: textFormat, verbosity: z.enum(['low', 'medium', 'high']) })
const reasoningOptions = responses.object('ResponseReasoningEffort', {
  effort: z.enum(['none', 'minimal', 'low', 'medium', 'high']).nullable(),
  summary: z.enum(['auto', 'concise', 'detailed']).nullable(),
})

export const status = z.enum(['in_progress', 'completed', 'incomplete', 'failed'])

/** A response, whole or in one of the events of its stream. `Response` is a class of every client in Python. */
export const response = responses.object('ModelResponse', {
  id: z.string(),
  object: z.literal('response'),
  created_at: z.int().min(0),
  completed_at: z.int().min(0).nullable(),
  status,
  background: z.literal(false),
  error: error.nullable(),
  incomplete_details: incomplete.nullable(),
  instructions: z.string().nullable(),
  max_output_tokens: z.int().nullable(),
  max_tool_calls: z.int().nullable(),
  model: z.string(),
  output: z.array(outputItem),
  parallel_tool_calls: z.boolean(),
  previous_response_id: z.string().nullable(),
  prompt_cache_key: z.string().nullable(),
  reasoning: reasoningOptions,
  safety_identifier: z.string().nullable(),
  service_tier: z.literal('default'),
  store: z.boolean(),
  temperature: z.number(),
  text,
  tool_choice: z.union([z.enum(['none', 'auto', 'required']), chosen]).describe('As sent.'),
  tools: z.array(tool).describe('Functions and namespaces; other tools were skipped.'),
  top_logprobs: z.int().min(0),
  top_p: z.number(),
  presence_penalty: z.number(),
  frequency_penalty: z.number(),
  truncation: z.literal('disabled'),
  usage: usage.nullable(),
  user: z.string().nullable(),
  metadata: z.record(z.string(), z.string()).register(responseSchemas, { id: 'ResponsePairs' }),
})

const at = { item_id: z.string(), output_index: z.int().min(0) }
const part = { ...at, content_index: z.int().min(0) }
const anyPart = responses.union('ResponseContentPart', 'type', [outputText, reasoningText])

/** An event while a response is generated, without its number. */
const lifecycle = z.object({
  type: z.enum([
    'response.created',
    'response.in_progress',
    'response.completed',
    'response.incomplete',
    'response.failed',
  ]),
  response,
})
const itemEvent = z.object({
  type: z.enum(['response.output_item.added', 'response.output_item.done']),
  output_index: z.int().min(0),
  item: outputItem,
})
const partEvent = z.object({
  type: z.enum(['response.content_part.added', 'response.content_part.done']),
  ...part,
  part: anyPart,
})
const textDelta = z.object({
  type: z.literal('response.output_text.delta'),
  ...part,
  delta: z.string(),
  logprobs: z.array(tokenLogProb),
})
const textDone = z.object({
  type: z.literal('response.output_text.done'),
  ...part,
  text: z.string(),
  logprobs: z.array(tokenLogProb),
})
const annotationAdded = z.object({
  type: z.literal('response.output_text.annotation.added'),
  ...part,
  annotation_index: z.int().min(0),
  annotation,
})
const thoughtDelta = z.object({ type: z.literal('response.reasoning_text.delta'), ...part, delta: z.string() })
const thoughtDone = z.object({ type: z.literal('response.reasoning_text.done'), ...part, text: z.string() })
const summary = { ...at, summary_index: z.int().min(0) }
const summaryEvent = z.object({
  type: z.enum(['response.reasoning_summary_part.added', 'response.reasoning_summary_part.done']),
  ...summary,
  part: summaryText,
})
const summaryDelta = z.object({
  type: z.literal('response.reasoning_summary_text.delta'),
  ...summary,
  delta: z.string(),
})
const summaryDone = z.object({ type: z.literal('response.reasoning_summary_text.done'), ...summary, text: z.string() })
const callDelta = z.object({ type: z.literal('response.function_call_arguments.delta'), ...at, delta: z.string() })
const callDone = z.object({
  type: z.literal('response.function_call_arguments.done'),
  ...at,
  name: z.string(),
  arguments: z.string(),
})
const fault = { code: z.string().nullable(), message: z.string(), param: z.string().nullable() }
const errorDetail = responses.object('ResponseErrorDetail', { type: z.string(), ...fault })
const failure = z.object({ type: z.literal('error'), ...fault, error: errorDetail })

const events = {
  ResponseLifecycleEvent: lifecycle,
  ResponseItemEvent: itemEvent,
  ResponsePartEvent: partEvent,
  ResponseTextDelta: textDelta,
  ResponseTextDone: textDone,
  ResponseAnnotationAdded: annotationAdded,
  ResponseReasoningDelta: thoughtDelta,
  ResponseReasoningDone: thoughtDone,
  ResponseSummaryEvent: summaryEvent,
  ResponseSummaryDelta: summaryDelta,
  ResponseSummaryDone: summaryDone,
  ResponseArgumentsDelta: callDelta,
  ResponseArgumentsDone: callDone,
  ResponseErrorEvent: failure,
}

/** One event of a streamed response, with its number. */
export const responseEvent = z
  .union(
    Object.entries<z.ZodObject>(events).map(([id, event]) =>
      event.extend({ sequence_number: z.int().min(0) }).register(responseSchemas, { id }),
    ),
  )
  .register(responseSchemas, { id: 'ResponseEvent' })

/** Response of `DELETE /v1/responses/{response_id}`. */
export const deletedResponse = responses.object('DeletedResponse', {
  id: z.string(),
  object: z.literal('response'),
  deleted: z.literal(true),
})

export type ResponseBody = z.output<typeof response>
export type ResponseUsageBody = z.output<typeof usage>
export type OutputItemBody = z.output<typeof outputItem>
export type TokenLogProbBody = z.output<typeof tokenLogProb>
export type DeletedResponseBody = z.output<typeof deletedResponse>
export type ResponseEventBody = {
  readonly [Name in keyof typeof events]: z.output<(typeof events)[Name]>
}[keyof typeof events]
