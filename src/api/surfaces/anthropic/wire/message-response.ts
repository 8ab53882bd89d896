import { z } from 'zod'
import { responseSchemas, responses } from '../../../http/wire/components.ts'

const tokens = z.int().min(0)

const text = responses.object('MessageText', { type: z.literal('text'), text: z.string() })
const thinking = responses.object('MessageThinking', {
  type: z.literal('thinking'),
  thinking: z.string(),
  signature: z.string(),
})
const caller = responses.object('ToolCaller', { type: z.literal('direct') })
const input = z.record(z.string(), z.unknown()).register(responseSchemas, { id: 'ToolUseInput' })
const toolUse = responses.object('MessageToolUse', {
  type: z.literal('tool_use'),
  id: z.string(),
  name: z.string(),
  input,
  caller,
})
const block = responses.union('MessageBlock', 'type', [text, thinking, toolUse])

const stopReason = z.enum(['end_turn', 'max_tokens', 'stop_sequence', 'tool_use', 'model_context_window_exceeded'])

const usage = responses.object('MessageUsage', {
  input_tokens: tokens.describe(
    'Prompt tokens that were computed. Together with the cached ones, they are the whole prompt.',
  ),
  cache_creation_input_tokens: tokens.describe('Always 0: caching costs nothing.'),
  cache_read_input_tokens: tokens,
  output_tokens: tokens,
  output_tokens_details: responses.object('MessageOutputTokensDetails', { thinking_tokens: tokens }),
  server_tool_use: z.null(),
})

const stop = { stop_reason: stopReason.nullable(), stop_sequence: z.string().nullable(), stop_details: z.null() }

/** Response of `POST /v1/messages`. */
export const message = responses.object('MessageReply', {
  id: z.string(),
  type: z.literal('message'),
  role: z.literal('assistant'),
  model: z.string(),
  content: z.array(block),
  ...stop,
  container: z.null(),
  diagnostics: z.null(),
  usage: usage
    .extend({
      cache_creation: z.null(),
      inference_geo: z.null(),
      service_tier: z.literal('standard'),
      speed: z.null(),
    })
    .register(responseSchemas, { id: 'WholeMessageUsage' }),
})

const delta = responses.union('MessageBlockDelta', 'type', [
  responses.object('TextDelta', { type: z.literal('text_delta'), text: z.string() }),
  responses.object('ThinkingDelta', { type: z.literal('thinking_delta'), thinking: z.string() }),
  responses.object('SignatureDelta', { type: z.literal('signature_delta'), signature: z.string() }),
  responses.object('InputJsonDelta', { type: z.literal('input_json_delta'), partial_json: z.string() }),
])

const blockStart = responses.object('ContentBlockStart', {
  type: z.literal('content_block_start'),
  index: z.int().min(0),
  content_block: block,
})
const blockDelta = responses.object('ContentBlockDelta', {
  type: z.literal('content_block_delta'),
  index: z.int().min(0),
  delta,
})
const blockStop = responses.object('ContentBlockStop', { type: z.literal('content_block_stop'), index: z.int().min(0) })
const blockEvent = z.discriminatedUnion('type', [blockStart, blockDelta, blockStop])

/** One event of a streamed message; its SSE event has the same name as its type. */
export const messageEvent = responses.union('MessageEvent', 'type', [
  responses.object('MessageStart', { type: z.literal('message_start'), message }),
  blockStart,
  blockDelta,
  blockStop,
  responses.object('MessageDelta', {
    type: z.literal('message_delta'),
    delta: z.object({ ...stop, container: z.null() }).register(responseSchemas, { id: 'MessageEnd' }),
    usage,
  }),
  responses.object('MessageStop', { type: z.literal('message_stop') }),
])

/** Response of `POST /v1/messages/count_tokens`. */
export const messageTokens = responses.object('MessageTokens', { input_tokens: tokens })

const errorType = z.enum([
  'invalid_request_error',
  'authentication_error',
  'permission_error',
  'not_found_error',
  'request_too_large',
  'rate_limit_error',
  'timeout_error',
  'api_error',
  'overloaded_error',
])
const details = responses.object('MessageErrorFacts', { error_code: z.string() })
const error = responses.object('MessageErrorDetails', {
  type: errorType,
  message: z.string(),
  details: details.optional(),
})
/** Body of every error of these endpoints, and the last event of a stream that fails. */
export const messageError = responses.object('MessageError', {
  type: z.literal('error'),
  error,
  request_id: z.string(),
})

const modelInfo = responses.object('ModelInfo', {
  type: z.literal('model'),
  id: z.string(),
  display_name: z.string(),
  created_at: z.string(),
  max_input_tokens: z.int(),
  max_tokens: z.int(),
  lifecycle: z.literal('active'),
  ...{ capabilities: z.null(), deprecated_at: z.null(), line: z.null(), retires_at: z.null() },
})
/** Response of `GET /v1/models` to clients that send `anthropic-version`. */
export const modelInfoList = responses.object('ModelInfoList', {
  data: z.array(modelInfo),
  has_more: z.boolean(),
  first_id: z.string().nullable(),
  last_id: z.string().nullable(),
})

export type BlockBody = z.output<typeof block>
export type BlockEventBody = z.output<typeof blockEvent>
export type MessageBody = z.output<typeof message>
export type MessageEventBody = z.output<typeof messageEvent>
export type MessageUsageBody = z.output<typeof usage>
export type MessageTokensBody = z.output<typeof messageTokens>
export type MessageErrorBody = z.output<typeof messageError>
export type ModelInfoBody = z.output<typeof modelInfo>
export type ModelInfoListBody = z.output<typeof modelInfoList>
export type StopReason = z.output<typeof stopReason>
