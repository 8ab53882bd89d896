import { z } from 'zod'
import { responseSchemas } from '../../../http/wire/components.ts'

const tokens = z.int().min(0)

const text = z
  .object({ type: z.literal('text'), text: z.string(), citations: z.null() })
  .register(responseSchemas, { id: 'MessageText' })
const thinking = z
  .object({ type: z.literal('thinking'), thinking: z.string(), signature: z.string() })
  .register(responseSchemas, { id: 'MessageThinking' })
const caller = z.object({ type: z.literal('direct') }).register(responseSchemas, { id: 'ToolCaller' })
const input = z.record(z.string(), z.unknown()).register(responseSchemas, { id: 'ToolUseInput' })
const toolUse = z
  .object({ type: z.literal('tool_use'), id: z.string(), name: z.string(), input, caller })
  .register(responseSchemas, { id: 'MessageToolUse' })
const block = z.discriminatedUnion('type', [text, thinking, toolUse]).register(responseSchemas, { id: 'MessageBlock' })

const stopReason = z.enum(['end_turn', 'max_tokens', 'stop_sequence', 'tool_use', 'model_context_window_exceeded'])

const usage = z
  .object({
    input_tokens: tokens.describe(
      'Prompt tokens that were computed. Together with the cached ones, they are the whole prompt.',
    ),
    cache_creation_input_tokens: tokens.describe('Always 0: caching costs nothing.'),
    cache_read_input_tokens: tokens,
    output_tokens: tokens,
  })
  .register(responseSchemas, { id: 'MessageUsage' })

const stop = { stop_reason: stopReason.nullable(), stop_sequence: z.string().nullable(), stop_details: z.null() }

/** Response of `POST /v1/messages`. */
export const message = z
  .object({
    id: z.string(),
    type: z.literal('message'),
    role: z.literal('assistant'),
    model: z.string(),
    content: z.array(block),
    ...stop,
    container: z.null(),
    usage,
  })
  .register(responseSchemas, { id: 'MessageReply' })

const delta = z
  .discriminatedUnion('type', [
    z.object({ type: z.literal('text_delta'), text: z.string() }).register(responseSchemas, { id: 'TextDelta' }),
    z
      .object({ type: z.literal('thinking_delta'), thinking: z.string() })
      .register(responseSchemas, { id: 'ThinkingDelta' }),
    z
      .object({ type: z.literal('signature_delta'), signature: z.string() })
      .register(responseSchemas, { id: 'SignatureDelta' }),
    z
      .object({ type: z.literal('input_json_delta'), partial_json: z.string() })
      .register(responseSchemas, { id: 'InputJsonDelta' }),
  ])
  .register(responseSchemas, { id: 'MessageBlockDelta' })

const blockStart = z
  .object({ type: z.literal('content_block_start'), index: z.int().min(0), content_block: block })
  .register(responseSchemas, { id: 'ContentBlockStart' })
const blockDelta = z
  .object({ type: z.literal('content_block_delta'), index: z.int().min(0), delta })
  .register(responseSchemas, { id: 'ContentBlockDelta' })
const blockStop = z
  .object({ type: z.literal('content_block_stop'), index: z.int().min(0) })
  .register(responseSchemas, { id: 'ContentBlockStop' })
const blockEvent = z.discriminatedUnion('type', [blockStart, blockDelta, blockStop])

/** One event of a streamed message; its SSE event has the same name as its type. */
export const messageEvent = z
  .discriminatedUnion('type', [
    z.object({ type: z.literal('message_start'), message }).register(responseSchemas, { id: 'MessageStart' }),
    blockStart,
    blockDelta,
    blockStop,
    z
      .object({
        type: z.literal('message_delta'),
        delta: z.object(stop).register(responseSchemas, { id: 'MessageEnd' }),
        usage,
      })
      .register(responseSchemas, { id: 'MessageDelta' }),
    z.object({ type: z.literal('message_stop') }).register(responseSchemas, { id: 'MessageStop' }),
  ])
  .register(responseSchemas, { id: 'MessageEvent' })

/** Response of `POST /v1/messages/count_tokens`. */
export const messageTokens = z.object({ input_tokens: tokens }).register(responseSchemas, { id: 'MessageTokens' })

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
const details = z.object({ error_code: z.string() }).register(responseSchemas, { id: 'MessageErrorFacts' })
const error = z
  .object({ type: errorType, message: z.string(), details: details.optional() })
  .register(responseSchemas, { id: 'MessageErrorDetails' })
/** Body of every error of these endpoints, and the last event of a stream that fails. */
export const messageError = z
  .object({ type: z.literal('error'), error, request_id: z.string() })
  .register(responseSchemas, { id: 'MessageError' })

const modelInfo = z
  .object({
    type: z.literal('model'),
    id: z.string(),
    display_name: z.string(),
    created_at: z.string(),
    max_input_tokens: z.int(),
    max_tokens: z.int(),
  })
  .register(responseSchemas, { id: 'ModelInfo' })
/** Response of `GET /v1/models` to clients that send `anthropic-version`. */
export const modelInfoList = z
  .object({
    data: z.array(modelInfo),
    has_more: z.boolean(),
    first_id: z.string().nullable(),
    last_id: z.string().nullable(),
  })
  .register(responseSchemas, { id: 'ModelInfoList' })

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
