import { isDeepStrictEqual } from 'node:util'
import type { ChatRequest } from '../../../conversation/request/chat-request.ts'
import type { ReasoningEffort, ReplyOptions } from '../../../conversation/request/reply-options.ts'
import type { Tool } from '../../../conversation/request/tool.ts'
import type { ServedModel } from '../../../inference/catalog/registry.ts'
import { invalidRequest, say } from '../../../lib/errors.ts'
import type { Path } from '../../../lib/param.ts'
import type { ReadBody } from '../../http/body/body-reader.ts'
import { paramNames } from './param-names.ts'
import { toTurns } from './turns.ts'
import { isCustom, type MessageRequestBody, type PromptBody } from './wire/message-request.ts'

type ReplyBody = Partial<Omit<MessageRequestBody, keyof PromptBody>>

/** @throws ApiError for a required tool that cannot be called. */
export function toChatRequest(
  { value: body, rawParameters }: ReadBody<PromptBody & ReplyBody>,
  { served }: ServedModel,
): ChatRequest {
  const tools = toolsOf(body, rawParameters)
  const turns = toTurns(body)
  const { format, param } = formatOf(body)
  return {
    messages: turns.messages,
    names: paramNames(
      turns.places,
      tools.map(({ index }) => index),
      param,
    ),
    tools: tools.map(({ tool }) => tool),
    toolUse: toolUseOf(body, tools.length > 0),
    structure: format ? { type: 'json_schema', schema: format.schema } : null,
    stops: body.stop_sequences ?? [],
    streamed: body.stream === true,
    // Anthropic's convention includes forced calls.
    compatibility: 'openai',
    maxTokens: body.max_tokens ?? null,
    maxTokensParam: 'max_completion_tokens',
    clampsTokens: true,
    sampling: {
      temperature: body.temperature ?? 0,
      topP: body.top_p ?? 1,
      topK: body.top_k ?? 0,
      frequencyPenalty: 0,
      presencePenalty: 0,
    },
    topLogProbs: null,
    ...thinkingOf(body, served.reasoning),
    vision: { annotationFormat: null, enableThinking: null, enableAudioInVideo: null, focus: null },
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

/** Leaves out tools without a schema: Anthropic's servers run them, or only its models know them. */
function toolsOf({ tools }: PromptBody, rawParameters: readonly (string | null)[]): { tool: Tool; index: number }[] {
  return (tools ?? []).flatMap((tool, index) => {
    if (!isCustom(tool)) return []
    const { name, description = null } = tool
    return [{ tool: { name, description, parameters: rawParameters[index] ?? null }, index }]
  })
}

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
