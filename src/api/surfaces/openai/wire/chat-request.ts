import { z } from 'zod'
import { type BodyFormat, bodyFormat } from '../../../http/body/body-format.ts'
import { clientMap, jsonSchema } from '../../../http/wire/client-json.ts'
import { requestSchemas, requests } from '../../../http/wire/components.ts'
import { MOST_MESSAGES, message } from './messages.ts'
import { openAiFields, openAiStreamOptions } from './openai-fields.ts'
import { anyEffort, logprobs, replyOptions, topLogprobs, unlimited, vllmSampling } from './reply-options.ts'
import { checkFunctionNames } from './tool-names.ts'

const jsonObject = clientMap(z.unknown()).register(requestSchemas, { id: 'FunctionParameters' })

const declaredFunction = requests.object('FunctionDeclaration', {
  name: z.string().min(1),
  description: z.string().nullish(),
  parameters: jsonObject.nullish(),
  strict: z.boolean().nullish(),
})

const tool = requests.object('Tool', { type: z.literal('function'), function: declaredFunction })

/** The maximum that one constraint supports. */
const MOST_TOOLS = 256

const tools = z.array(tool).max(MOST_TOOLS).superRefine(checkFunctionNames)

const functionName = requests.object('FunctionName', { name: z.string().min(1) })

const choiceMode = z.enum(['none', 'auto', 'required'])
/** Includes `required` under its name in Mistral's API. */
const anyChoiceMode = z
  .enum([...choiceMode.options, 'any'])
  .transform((mode) => (mode === 'any' ? ('required' as const) : mode))
const namedTool = requests.object('NamedToolChoice', { type: z.literal('function'), function: functionName })
const toolChoice = z.union([choiceMode, namedTool]).register(requestSchemas, { id: 'ToolChoice' })

/** The subset of the tools that the model may call. */
const allowedTools = z.object({
  type: z.literal('allowed_tools'),
  allowed_tools: z.object({
    mode: z.enum(['auto', 'required']),
    tools: z
      .array(z.object({ type: z.literal('function'), function: functionName }))
      .min(1)
      .max(MOST_TOOLS),
  }),
})

const namedSchema = requests.object('NamedJsonSchema', {
  name: z.string().min(1),
  schema: jsonSchema.optional().describe('Any JSON by default.'),
  strict: z.boolean().nullish(),
})

const responseFormat = requests.union('ChatResponseFormat', 'type', [
  requests.object('TextResponseFormat', { type: z.literal('text') }),
  requests.object('JsonSchemaResponseFormat', { type: z.literal('json_schema'), json_schema: namedSchema }),
])

/** The contract's limit for one prompt of a multilook. */
const MOST_CHOICES = 8

const jsonObjectFormat = requests.object('JsonObjectFormat', {
  type: z.literal('json_object'),
  schema: jsonSchema.optional().describe('An extension that other servers have too: the reply matches the schema.'),
  value: jsonSchema.optional().describe("The same, as clients of Hugging Face's servers send it."),
})

export const openAiResponseFormat = requests.union('OpenAiResponseFormat', 'type', [
  ...responseFormat.options,
  jsonObjectFormat,
])

const streamOptions = requests.object('StreamOptions', { include_usage: z.boolean().nullish() })

/** Body of `POST /v1/chat/completions`. Unknown keys are dropped. */
export const chatRequest = requests.object('ChatCompletionRequest', {
  messages: z.array(message).min(1).max(MOST_MESSAGES),
  model: z.string(),
  ...replyOptions,
  n: z.int().min(1).max(1, 'only 1 is supported').nullish(),
  parallel_tool_calls: z.boolean().nullish(),
  regex: z.string().min(1).nullish(),
  response_format: responseFormat.nullish(),
  stream: z.boolean().nullish(),
  stream_options: streamOptions.nullish(),
  tool_choice: toolChoice.nullish(),
  tools: tools.nullish(),
})

/**
 * The same body with `compatibility: openai`, and OpenAI's other fields. It rejects fields that the server cannot honour,
 * which the contract ignores.
 */
export const openAiChatRequest = chatRequest
  .extend({
    n: z.int().min(1).max(MOST_CHOICES).nullish(),
    response_format: openAiResponseFormat.nullish(),
    reasoning_effort: anyEffort.nullish(),
    stream_options: openAiStreamOptions.nullish(),
    tool_choice: z.union([anyChoiceMode, z.discriminatedUnion('type', [namedTool, allowedTools])]).nullish(),
    random_seed: z.int().nullish().describe('The name of seed, which takes precedence, in Mistral’s API.'),
    logprobs,
    top_logprobs: topLogprobs,
    ...vllmSampling,
    ...unlimited,
    ...openAiFields,
  })
  .superRefine(({ messages, logprobs, top_logprobs: top, stream, stream_options: options }, context) => {
    const last = messages.at(-1)
    if (last?.role === 'assistant' && last.prefix) {
      const path = ['messages', messages.length - 1, 'prefix']
      context.addIssue({ code: 'custom', path, message: 'it is not supported: replies are not continued' })
    }
    if (typeof top === 'number' && logprobs !== true) {
      context.addIssue({ code: 'custom', path: ['top_logprobs'], message: 'it requires logprobs to be true' })
    }
    if (options && stream !== true) {
      context.addIssue({ code: 'custom', path: ['stream_options'], message: 'it requires stream to be true' })
    }
  })

export const chatBody: BodyFormat<ChatRequestBody> = bodyFormat(import.meta.url, 'chatRequest', chatRequest)
export const openAiChatBody = bodyFormat(import.meta.url, 'openAiChatRequest', openAiChatRequest)

export type ChatRequestBody = z.output<typeof openAiChatRequest>
