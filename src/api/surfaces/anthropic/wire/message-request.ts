import { z } from 'zod'
import type { MediaUrl } from '../../../../conversation/request/message.ts'
import { type BodyFormat, bodyFormat } from '../../../http/body/body-format.ts'
import { asText, checkLength, clientMap } from '../../../http/wire/client-json.ts'
import { requestSchemas } from '../../../http/wire/components.ts'
import { limitCalls, MOST_MESSAGES, MOST_PARTS } from '../../openai/wire/messages.ts'
import { toolNameIssue } from '../../openai/wire/tool-names.ts'

/** The maximum that one constraint supports. */
const MOST_TOOLS = 256
/** A limit, because every piece of a reply is searched for each of them. */
const MOST_STOPS = 32
const LONGEST_STOP = 256

const textBlock = z
  .object({ type: z.literal('text'), text: z.string() })
  .register(requestSchemas, { id: 'MessageTextBlock' })

const base64Data: z.ZodType<MediaUrl, string> = z.string().min(1, 'expected base64')
const imageSource = z
  .discriminatedUnion('type', [
    z
      .object({
        type: z.literal('base64'),
        media_type: z.string().describe('Only a hint: the server detects the type from the bytes.'),
        data: base64Data,
      })
      .register(requestSchemas, { id: 'Base64ImageSource' }),
    z
      .object({ type: z.literal('url'), url: z.string().min(1, 'expected a URL') })
      .register(requestSchemas, { id: 'UrlImageSource' }),
    z
      .object({ type: z.literal('file'), file_id: z.string().min(1, 'expected a file id') })
      .register(requestSchemas, { id: 'FileImageSource' }),
  ])
  .register(requestSchemas, { id: 'MessageImageSource' })
const imageBlock = z
  .object({ type: z.literal('image'), source: imageSource })
  .register(requestSchemas, { id: 'MessageImageBlock' })

const documentSource = z
  .object({
    type: z.literal('text', 'only plain text is supported: send the pages of other documents as images'),
    data: z.string(),
  })
  .register(requestSchemas, { id: 'PlainTextSource' })
const documentBlock = z
  .object({ type: z.literal('document'), source: documentSource, title: z.string().nullish() })
  .register(requestSchemas, { id: 'MessageDocumentBlock' })

const toolReference = z
  .object({ type: z.literal('tool_reference'), tool_name: z.string() })
  .register(requestSchemas, { id: 'MessageToolReference' })

const resultPart = z
  .discriminatedUnion('type', [textBlock, imageBlock, documentBlock, toolReference])
  .register(requestSchemas, { id: 'MessageResultBlock' })
const toolResult = z
  .object({
    type: z.literal('tool_result'),
    tool_use_id: z.string().min(1),
    content: z.union([z.string(), z.array(resultPart).max(MOST_PARTS)]).nullish(),
    is_error: z.boolean().nullish(),
  })
  .register(requestSchemas, { id: 'MessageToolResultBlock' })

const toolInput = clientMap(z.unknown()).register(requestSchemas, { id: 'MessageToolInput' })
const toolUse = z
  .object({ type: z.literal('tool_use'), id: z.string().min(1), name: z.string().min(1), input: asText(toolInput) })
  .register(requestSchemas, { id: 'MessageToolUseBlock' })

const thinkingBlock = z
  .object({ type: z.literal('thinking'), thinking: z.string(), signature: z.string().nullish() })
  .register(requestSchemas, { id: 'MessageThinkingBlock' })
const redactedThinking = z
  .object({ type: z.literal('redacted_thinking'), data: z.string().nullish() })
  .register(requestSchemas, { id: 'MessageRedactedThinkingBlock' })

/** The work of Anthropic's servers in an earlier turn. It is skipped, as are the tools that do it. */
const serverBlock = z
  .object({
    type: z.enum([
      'server_tool_use',
      'web_search_tool_result',
      'web_fetch_tool_result',
      'code_execution_tool_result',
      'bash_code_execution_tool_result',
      'text_editor_code_execution_tool_result',
      'tool_search_tool_result',
      'mcp_tool_use',
      'mcp_tool_result',
      'container_upload',
    ]),
  })
  .register(requestSchemas, { id: 'MessageServerToolBlock' })

const userBlock = z
  .discriminatedUnion('type', [textBlock, imageBlock, documentBlock, toolResult, serverBlock])
  .register(requestSchemas, { id: 'MessageUserBlock' })
const assistantBlock = z
  .discriminatedUnion('type', [textBlock, thinkingBlock, redactedThinking, toolUse, serverBlock])
  .register(requestSchemas, { id: 'MessageAssistantBlock' })

/** Limits the calls of one turn: texts and thoughts between them do not end it. */
const assistantBlocks = z
  .array(assistantBlock)
  .max(MOST_PARTS)
  .superRefine(
    limitCalls(
      ({ type }: AssistantBlockBody) => type === 'tool_use',
      () => true,
    ),
  )

const texts = z.union([z.string(), z.array(textBlock).max(MOST_PARTS)])

const message = z
  .discriminatedUnion('role', [
    z
      .object({ role: z.literal('user'), content: z.union([z.string(), z.array(userBlock).min(1).max(MOST_PARTS)]) })
      .register(requestSchemas, { id: 'UserMessageParam' }),
    z
      .object({ role: z.literal('assistant'), content: z.union([z.string(), assistantBlocks]) })
      .register(requestSchemas, { id: 'AssistantMessageParam' }),
    z.object({ role: z.literal('system'), content: texts }).register(requestSchemas, { id: 'SystemMessageParam' }),
  ])
  .register(requestSchemas, { id: 'MessageParam' })

const messages = z
  .array(message)
  .min(1)
  .max(MOST_MESSAGES)
  .superRefine((messages, context) => {
    if (messages.at(-1)?.role !== 'assistant') return
    const path = [messages.length - 1, 'role']
    context.addIssue({
      code: 'custom',
      path,
      message: 'the last message must be the user’s: replies are not continued',
    })
  })

const inputSchema = clientMap(z.unknown()).register(requestSchemas, { id: 'ToolInputSchema' })
const customTool = z
  .object({
    type: z.literal('custom').nullish(),
    name: z.string().min(1),
    description: z.string().nullish(),
    input_schema: inputSchema,
  })
  .register(requestSchemas, { id: 'CustomTool' })
/** A tool without a schema: Anthropic's servers run it, or only its models know it. */
const typedTool = z
  .object({ type: z.string().refine((type) => type !== 'custom'), name: z.string().nullish() })
  .register(requestSchemas, { id: 'TypedTool' })

const anyTool = z.union([customTool, typedTool]).register(requestSchemas, { id: 'MessageTool' })
const tools = z
  .array(anyTool)
  .max(MOST_TOOLS)
  .superRefine((tools, context) => {
    const custom = [...tools.entries()].filter((entry): entry is [number, CustomToolBody] => isCustom(entry[1]))
    const issue = toolNameIssue(custom.map(([, { name }]) => name))
    if (!issue) return
    const { message, code } = issue
    context.addIssue({ code: 'custom', path: [custom[issue.index]![0], 'name'], message, params: { code } })
  })

const single = { disable_parallel_tool_use: z.boolean().nullish() }
const toolChoice = z
  .discriminatedUnion('type', [
    z.object({ type: z.literal('auto'), ...single }).register(requestSchemas, { id: 'ToolChoiceAuto' }),
    z.object({ type: z.literal('any'), ...single }).register(requestSchemas, { id: 'ToolChoiceAny' }),
    z
      .object({ type: z.literal('tool'), name: z.string().min(1), ...single })
      .register(requestSchemas, { id: 'ToolChoiceTool' }),
    z.object({ type: z.literal('none') }).register(requestSchemas, { id: 'ToolChoiceNone' }),
  ])
  .register(requestSchemas, { id: 'MessageToolChoice' })

const display = z.enum(['summarized', 'omitted']).nullish()
const thinking = z
  .discriminatedUnion('type', [
    z
      .object({ type: z.literal('enabled'), budget_tokens: z.int().min(1), display })
      .register(requestSchemas, { id: 'ThinkingEnabled' }),
    z.object({ type: z.literal('adaptive'), display }).register(requestSchemas, { id: 'ThinkingAdaptive' }),
    z.object({ type: z.literal('between_tools') }).register(requestSchemas, { id: 'ThinkingBetweenTools' }),
    z.object({ type: z.literal('disabled') }).register(requestSchemas, { id: 'ThinkingDisabled' }),
  ])
  .register(requestSchemas, { id: 'MessageThinkingOption' })

const outputFormat = z
  .object({ type: z.literal('json_schema'), schema: inputSchema.superRefine(checkLength) })
  .register(requestSchemas, { id: 'JsonOutputFormat' })
const outputConfig = z
  .object({
    effort: z.enum(['low', 'medium', 'high', 'xhigh', 'max']).nullish(),
    format: outputFormat.nullish(),
  })
  .register(requestSchemas, { id: 'OutputConfig' })

const prompt = {
  model: z.string(),
  messages,
  output_config: outputConfig.nullish(),
  output_format: outputFormat.nullish().describe('Older name of output_config.format.').meta({ deprecated: true }),
  system: texts.nullish(),
  thinking: thinking.nullish(),
  tool_choice: toolChoice.nullish(),
  tools: tools.nullish(),
}

/** The error code that makes the official client send the whole conversation with each request. */
export const THREADS_UNSUPPORTED = 'thread_unsupported_request'

const metadata = z.object({ user_id: z.string().nullish() }).register(requestSchemas, { id: 'MessageMetadata' })

/** Body of `POST /v1/messages`. Unknown keys are dropped, and so is `cache_control` everywhere. */
export const messageRequest = z
  .object({
    ...prompt,
    max_tokens: z.int().min(0),
    metadata: metadata.nullish(),
    stop_sequences: z.array(z.string().min(1).max(LONGEST_STOP)).max(MOST_STOPS).nullish(),
    stream: z.boolean().nullish(),
    thread: z
      .unknown()
      .optional()
      .refine((thread) => (thread ?? null) === null, {
        message: 'the server keeps no threads: send the whole conversation',
        params: { code: THREADS_UNSUPPORTED },
      }),
    temperature: z.number().min(0).max(2).nullish(),
    top_k: z.int().min(0).nullish(),
    top_p: z.number().gt(0).max(1).nullish(),
  })
  .register(requestSchemas, { id: 'MessageRequest' })

/** Body of `POST /v1/messages/count_tokens`. */
export const countTokensRequest = z.object(prompt).register(requestSchemas, { id: 'CountTokensRequest' })

export const messageBody: BodyFormat<MessageRequestBody> = bodyFormat(import.meta.url, 'messageRequest', messageRequest)
export const countTokensBody: BodyFormat<PromptBody> = bodyFormat(
  import.meta.url,
  'countTokensRequest',
  countTokensRequest,
)

export function isCustom(tool: CustomToolBody | z.output<typeof typedTool>): tool is CustomToolBody {
  return 'input_schema' in tool
}

export type MessageRequestBody = z.output<typeof messageRequest>
export type PromptBody = z.output<typeof countTokensRequest>
export type MessageParamBody = z.output<typeof message>
export type UserBlockBody = z.output<typeof userBlock>
export type AssistantBlockBody = z.output<typeof assistantBlock>
export type ToolResultBody = z.output<typeof toolResult>
export type ResultPartBody = z.output<typeof resultPart>
export type ImageSourceBody = z.output<typeof imageSource>
export type TextsBody = z.output<typeof texts>
type CustomToolBody = z.output<typeof customTool>
