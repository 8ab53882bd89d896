import { z } from 'zod'
import type { MediaUrl } from '../../../../conversation/request/message.ts'
import { bodyFormat } from '../../../http/body/body-format.ts'
import { asText, checkLength, clientMap } from '../../../http/wire/client-json.ts'
import { requestSchemas, requests } from '../../../http/wire/components.ts'
import { limitCalls, MOST_MESSAGES, MOST_PARTS, pages, pageText } from '../../openai/wire/messages.ts'
import { checkToolNames } from '../../openai/wire/tool-names.ts'

/** The maximum that one constraint supports. */
const MOST_TOOLS = 256
/** A limit, because every piece of a reply is searched for each of them. */
const MOST_STOPS = 32
const LONGEST_STOP = 256

const textBlock = requests.object('MessageTextBlock', { type: z.literal('text'), text: z.string() })

const base64Data: z.ZodType<MediaUrl, string> = z.string().min(1, 'expected base64')
const imageSource = requests.union('MessageImageSource', 'type', [
  requests.object('Base64ImageSource', {
    type: z.literal('base64'),
    media_type: z.string().describe('Only a hint: the server detects the type from the bytes.'),
    data: base64Data,
  }),
  requests.object('UrlImageSource', { type: z.literal('url'), url: z.string().min(1, 'expected a URL') }),
  requests.object('FileImageSource', { type: z.literal('file'), file_id: z.string().min(1, 'expected a file id') }),
])
const imageBlock = requests.object('MessageImageBlock', { type: z.literal('image'), source: imageSource })

const chunk = requests.union('MessageContentChunk', 'type', [textBlock, imageBlock])
const documentSource = requests.union('MessageDocumentSource', 'type', [
  requests.object('PlainTextSource', { type: z.literal('text'), data: z.string() }),
  requests.object('ContentSource', {
    type: z.literal('content'),
    content: z.union([z.string(), z.array(chunk).max(MOST_PARTS)]),
  }),
  ...imageSource.options,
])
const documentBlock = requests.object('MessageDocumentBlock', {
  type: z.literal('document'),
  source: documentSource.describe('Texts and images, or a PDF.'),
  title: z.string().nullish(),
  context: z.string().nullish().describe('Shown before the document, as `title` is.'),
  pages,
  page_text: pageText,
})

const searchResult = requests.object('MessageSearchResultBlock', {
  type: z.literal('search_result'),
  title: z.string(),
  source: z.string(),
  content: z.array(textBlock).max(MOST_PARTS),
})

const toolReference = requests.object('MessageToolReference', {
  type: z.literal('tool_reference'),
  tool_name: z.string(),
})

const resultPart = requests.union('MessageResultBlock', 'type', [
  textBlock,
  imageBlock,
  documentBlock,
  searchResult,
  toolReference,
])
const toolResult = requests.object('MessageToolResultBlock', {
  type: z.literal('tool_result'),
  tool_use_id: z.string().min(1),
  content: z.union([z.string(), z.array(resultPart).max(MOST_PARTS)]).nullish(),
  is_error: z.boolean().nullish(),
})

const toolInput = clientMap(z.unknown()).register(requestSchemas, { id: 'MessageToolInput' })
const toolUse = requests.object('MessageToolUseBlock', {
  type: z.literal('tool_use'),
  id: z.string().min(1),
  name: z.string().min(1),
  input: asText(toolInput),
})

const thinkingBlock = requests.object('MessageThinkingBlock', {
  type: z.literal('thinking'),
  thinking: z.string(),
  signature: z.string().nullish(),
})
const redactedThinking = requests.object('MessageRedactedThinkingBlock', {
  type: z.literal('redacted_thinking'),
  data: z.string().nullish(),
})

/** The work of Anthropic's servers in an earlier turn. It is skipped, as are the tools that do it. */
const serverBlock = requests.object('MessageServerToolBlock', {
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

const userBlock = requests.union('MessageUserBlock', 'type', [
  textBlock,
  imageBlock,
  documentBlock,
  searchResult,
  toolResult,
  serverBlock,
])
const assistantBlock = requests.union('MessageAssistantBlock', 'type', [
  textBlock,
  thinkingBlock,
  redactedThinking,
  toolUse,
  serverBlock,
])

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

const message = requests.union('MessageParam', 'role', [
  requests.object('UserMessageParam', {
    role: z.literal('user'),
    content: z.union([z.string(), z.array(userBlock).min(1).max(MOST_PARTS)]),
  }),
  requests.object('AssistantMessageParam', {
    role: z.literal('assistant'),
    content: z.union([z.string(), assistantBlocks]),
  }),
  requests.object('SystemMessageParam', { role: z.literal('system'), content: texts }),
])

const messages = z
  .array(message)
  .min(1)
  .max(MOST_MESSAGES)
  .superRefine((messages, context) => {
    if (messages.at(-1)?.role !== 'assistant') return
    const message = 'the last message must be the user’s: replies are not continued'
    context.addIssue({ code: 'custom', path: [messages.length - 1, 'role'], message })
  })

const inputSchema = clientMap(z.unknown()).register(requestSchemas, { id: 'ToolInputSchema' })
const customTool = requests.object('CustomTool', {
  type: z.literal('custom').nullish(),
  name: z.string().min(1),
  description: z.string().nullish(),
  input_schema: inputSchema,
})
/** A tool without a schema: Anthropic's servers run it, or only its models know it. */
const typedTool = requests.object('TypedTool', {
  type: z.string().refine((type) => type !== 'custom'),
  name: z.string().nullish(),
})

const anyTool = z.union([customTool, typedTool]).register(requestSchemas, { id: 'MessageTool' })
const tools = z
  .array(anyTool)
  .max(MOST_TOOLS)
  .superRefine((tools, context) => {
    const custom = tools.flatMap((tool, at) => (isCustom(tool) ? [{ name: tool.name, path: [at, 'name'] }] : []))
    checkToolNames(custom, context)
  })

const single = { disable_parallel_tool_use: z.boolean().nullish() }
const toolChoice = requests.union('MessageToolChoice', 'type', [
  requests.object('ToolChoiceAuto', { type: z.literal('auto'), ...single }),
  requests.object('ToolChoiceAny', { type: z.literal('any'), ...single }),
  requests.object('ToolChoiceTool', { type: z.literal('tool'), name: z.string().min(1), ...single }),
  requests.object('ToolChoiceNone', { type: z.literal('none') }),
])

const display = z.enum(['summarized', 'omitted']).nullish()
const thinking = requests.union('MessageThinkingOption', 'type', [
  requests.object('ThinkingEnabled', { type: z.literal('enabled'), budget_tokens: z.int().min(1), display }),
  requests.object('ThinkingAdaptive', { type: z.literal('adaptive'), display }),
  requests.object('ThinkingBetweenTools', { type: z.literal('between_tools') }),
  requests.object('ThinkingDisabled', { type: z.literal('disabled') }),
])

const outputFormat = requests.object('JsonOutputFormat', {
  type: z.literal('json_schema'),
  schema: inputSchema.superRefine(checkLength),
})
const outputConfig = requests.object('OutputConfig', {
  effort: z.enum(['low', 'medium', 'high', 'xhigh', 'max']).nullish(),
  format: outputFormat.nullish(),
})

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

const metadata = requests.object('MessageMetadata', { user_id: z.string().nullish() })

/** Body of `POST /v1/messages`. Unknown keys are dropped, and so is `cache_control` everywhere. */
export const messageRequest = requests.object('MessageRequest', {
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

/** Body of `POST /v1/messages/count_tokens`. */
export const countTokensRequest = z.object(prompt).register(requestSchemas, { id: 'CountTokensRequest' })

export const messageBody = bodyFormat(import.meta.url, 'messageRequest', messageRequest)
export const countTokensBody = bodyFormat(import.meta.url, 'countTokensRequest', countTokensRequest)

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
export type DocumentBlockBody = z.output<typeof documentBlock>
export type TextsBody = z.output<typeof texts>
type CustomToolBody = z.output<typeof customTool>
