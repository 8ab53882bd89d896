import { isDeepStrictEqual } from 'node:util'
import type { ChatRequest } from '../../../conversation/request/chat-request.ts'
import type { ReasoningEffort, ReplyOptions } from '../../../conversation/request/reply-options.ts'
import type { ServedModel } from '../../../inference/catalog/registry.ts'
import { invalidRequest, say } from '../../../lib/errors/errors.ts'
import type { Path } from '../../../lib/errors/param.ts'
import type { ReadBody } from '../../http/body/body-reader.ts'
import { toTools } from '../openai/chat-request.ts'
import { toReplyOptions } from '../openai/reply-options.ts'
import { paramNames } from './param-names.ts'
import { toTurns } from './turns.ts'
import { isCustom, type MessageRequestBody, type PromptBody } from './wire/message-request.ts'

type ReplyBody = Partial<Omit<MessageRequestBody, keyof PromptBody>>

/** @throws ApiError for a required tool that cannot be called. */
export function toChatRequest(
  { value: body, rawParameters }: ReadBody<PromptBody & ReplyBody>,
  { served }: ServedModel,
): ChatRequest {
  const tools = (body.tools ?? []).flatMap((tool, index) => (isCustom(tool) ? [{ tool, index }] : []))
  const turns = toTurns(body)
  const { format, param } = formatOf(body)
  return {
    messages: turns.messages,
    names: paramNames(
      turns.places,
      tools.map(({ index }) => index),
      param,
    ),
    // Without a schema, Anthropic's servers run a tool, or only its models know it.
    tools: toTools(tools, rawParameters),
    toolUse: toolUseOf(body, tools.length > 0),
    structure: format ? { type: 'json_schema', schema: format.schema } : null,
    stops: body.stop_sequences ?? [],
    streamed: body.stream === true,
    // Anthropic's convention includes forced calls.
    compatibility: 'openai',
    ...toReplyOptions({
      max_completion_tokens: body.max_tokens,
      temperature: body.temperature,
      top_p: body.top_p,
      top_k: body.top_k,
    }),
    clampsTokens: true,
    ...thinkingOf(body, served.reasoning),
  }
}

type Format = NonNullable<PromptBody['output_format']>

/** Returns the format of the reply, and the client's parameter for it. @throws ApiError 400 for two formats. */
function formatOf({ output_config, output_format: older }: PromptBody): { format: Format | null; param: Path } {
  const { format } = output_config ?? {}
  if (!older) return { format: format ?? null, param: FORMAT }
  if (format && !isDeepStrictEqual(format, older)) {
    throw invalidRequest(say`${[OLDER_FORMAT]} is an older name of ${FORMAT}, and the two differ`, OLDER_FORMAT)
  }
  return { format: older, param: format ? FORMAT : [OLDER_FORMAT] }
}

const FORMAT: Path = ['output_config', 'format']
const OLDER_FORMAT = 'output_format'

function toolUseOf({ tool_choice: choice }: PromptBody, hasTools: boolean): ChatRequest['toolUse'] {
  if (!choice) return { choice: 'auto', parallel: true }
  if (choice.type === 'none') return { choice: 'none', parallel: true }
  const parallel = choice.disable_parallel_tool_use !== true
  if (choice.type === 'auto') return { choice: 'auto', parallel }
  if (!hasTools) {
    throw invalidRequest(
      say`None of the ${['tools']} can be called: each of them is one that Anthropic’s servers run`,
      'tools',
    )
  }
  return { choice: choice.type === 'any' ? 'required' : { name: choice.name }, parallel }
}

type Thinking = Pick<ReplyOptions, 'reasoningEffort' | 'thoughtBudget'>

/** With adaptive thinking, a model need not support reasoning. */
function thinkingOf({ thinking, output_config: config }: PromptBody, canThink: boolean): Thinking {
  const effort: ReasoningEffort = EFFORTS[config?.effort ?? 'medium']
  switch (thinking?.type) {
    case 'enabled':
      return { reasoningEffort: effort, thoughtBudget: thinking.budget_tokens }
    case 'adaptive':
    case 'between_tools':
      return { reasoningEffort: canThink ? effort : 'none' }
    default:
      return { reasoningEffort: 'none' }
  }
}

const EFFORTS = { low: 'low', medium: 'medium', high: 'high', xhigh: 'high', max: 'high' } as const
