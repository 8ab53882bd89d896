import type { FinishReason, ReplyFinish } from '../../../conversation/reply/reply.ts'
import type { Usage } from '../../../conversation/reply/usage.ts'
import type { ApiError } from '../../../lib/errors/errors.ts'
import type { OutputItemBody, ResponseBody, ResponseUsageBody } from './wire/response.ts'
import { isFunction, isNamespace, type ResponseRequestBody, type ToolBody } from './wire/response-request.ts'

type ListedFunction = Extract<ResponseBody['tools'][number], { type: 'function' }>

/** The fields of a response that are known from the beginning. */
export interface ResponseHeading {
  readonly id: string
  /** Unix seconds. */
  readonly createdAt: number
  /** Whether it will be stored. */
  readonly store: boolean
  readonly body: ResponseRequestBody
  /** The parameters of each tool of the body, as the client wrote them. */
  readonly rawParameters: readonly (string | null)[]
}

/** Returns a response that has just begun. It has every field, because some clients reject a response that lacks one. */
export function begunResponse({ id, createdAt, store, body, rawParameters }: ResponseHeading): ResponseBody {
  const { verbosity } = body.text ?? {}
  return {
    id,
    object: 'response',
    created_at: createdAt,
    completed_at: null,
    status: 'in_progress',
    background: false,
    error: null,
    incomplete_details: null,
    instructions: body.instructions ?? null,
    max_output_tokens: body.max_output_tokens ?? null,
    max_tool_calls: body.max_tool_calls ?? null,
    model: body.model,
    output: [],
    parallel_tool_calls: body.parallel_tool_calls ?? true,
    previous_response_id: body.previous_response_id ?? null,
    prompt_cache_key: body.prompt_cache_key ?? null,
    reasoning: { effort: body.reasoning?.effort ?? null, summary: body.reasoning?.summary ?? null },
    safety_identifier: body.safety_identifier ?? null,
    service_tier: 'default',
    store,
    temperature: body.temperature ?? 0,
    text: { format: formatOf(body), verbosity: verbosity ?? 'medium' },
    tool_choice: body.tool_choice ?? 'auto',
    tools: listedTools(body, rawParameters),
    top_logprobs: body.top_logprobs ?? 0,
    top_p: body.top_p ?? 1,
    presence_penalty: body.presence_penalty ?? 0,
    frequency_penalty: body.frequency_penalty ?? 0,
    truncation: 'disabled',
    usage: null,
    user: body.user ?? null,
    metadata: body.metadata ?? {},
  }
}

/** Returns the functions and namespaces of a request as the client wrote them. */
function listedTools({ tools }: ResponseRequestBody, rawParameters: readonly (string | null)[]): ResponseBody['tools'] {
  const texts = rawParameters.values()
  const listed = (tool: ToolBody): ListedFunction[] => {
    const parameters = JSON.parse(texts.next().value ?? 'null') as ListedFunction['parameters']
    if (!isFunction(tool)) return []
    const { type, name, description, strict } = tool
    return [{ type, name, description: description ?? null, parameters, strict: strict ?? false }]
  }
  return (tools ?? []).flatMap((tool): ResponseBody['tools'] => {
    if (!isNamespace(tool)) return listed(tool)
    const { type, name, description } = tool
    return [{ type, name, description: description ?? null, tools: tool.tools.flatMap(listed) }]
  })
}

function formatOf({ text }: ResponseRequestBody): ResponseBody['text']['format'] {
  const format = text?.format
  if (format?.type === 'json_object') return format
  if (format?.type !== 'json_schema') return { type: 'text' }
  const { type, name, description, schema, strict } = format
  return { type, name, description: description ?? null, schema: schema ?? null, strict: strict ?? false }
}

interface Ended extends Pick<ReplyFinish, 'reason' | 'usage'> {
  readonly output: readonly OutputItemBody[]
  /** Prompt tokens that had been computed before, in all rounds of the request. */
  readonly cachedTokens: number
}

export function endedResponse(begun: ResponseBody, { reason, usage, output, cachedTokens }: Ended): ResponseBody {
  const cause = CAUSES[reason]
  return {
    ...begun,
    status: cause === undefined ? 'completed' : 'incomplete',
    completed_at: cause === undefined ? Math.floor(Date.now() / 1000) : null,
    incomplete_details: cause === undefined ? null : { reason: cause },
    output: [...output],
    usage: toUsage(usage, cachedTokens),
  }
}

/** Returns why a response is incomplete. A thought that used up its budget is followed by a whole reply. */
const CAUSES: Readonly<Partial<Record<FinishReason, string>>> = {
  length: 'max_output_tokens',
  tool_error: 'tool_error',
  tool_limit: 'tool_limit',
}

export function failedResponse(begun: ResponseBody, error: ApiError, output: readonly OutputItemBody[]): ResponseBody {
  const { message, code, type } = error
  return { ...begun, status: 'failed', error: { code: code ?? type, message }, output: [...output] }
}

function toUsage(usage: Usage, cachedTokens: number): ResponseUsageBody {
  const { promptTokens, completionTokens, imageTokens, audioTokens, reasoningTokens } = usage
  return {
    input_tokens: promptTokens,
    input_tokens_details: {
      cached_tokens: Math.min(cachedTokens, promptTokens),
      cache_write_tokens: 0,
      image_tokens: imageTokens,
      audio_tokens: audioTokens ?? 0,
    },
    output_tokens: completionTokens,
    output_tokens_details: { reasoning_tokens: reasoningTokens },
    total_tokens: promptTokens + completionTokens,
  }
}
