import { z } from 'zod'
import { bodyFormat } from '../../../http/body/body-format.ts'
import { clientMap, jsonSchema } from '../../../http/wire/client-json.ts'
import { requestSchemas, requests } from '../../../http/wire/components.ts'
import { limitCalls, MOST_MESSAGES } from '../../openai/wire/messages.ts'
import { pairs } from '../../openai/wire/openai-fields.ts'
import { anyEffort, replyOptions, topLogprobs } from '../../openai/wire/reply-options.ts'
import { checkToolNames } from '../../openai/wire/tool-names.ts'
import { type InputItemBody, inputItem } from './items.ts'

/** The maximum that one constraint supports, and the same number of skipped tools. */
const MOST_TOOLS = 512
const MOST_FUNCTIONS = 256
/** Each function of a namespace repeats it, so a longer one takes far more time than the body has characters. */
const LONGEST_NAMESPACE = 256

/** A field for an unsupported feature: only null is accepted. */
function unsupported(message: string) {
  return z
    .unknown()
    .refine((value) => value === undefined || value === null, message)
    .optional()
    .describe('Not supported: anything but null is rejected.')
}

function ofChats(ownName: string) {
  return unsupported(`it is a field of chat completions; use ${ownName}`)
}

const functionTool = requests.object('ResponseFunctionTool', {
  type: z.literal('function'),
  name: z.string().min(1),
  description: z.string().nullish(),
  parameters: clientMap(z.unknown()).register(requestSchemas, { id: 'ResponseToolParameters' }).nullish(),
  strict: z.boolean().nullish(),
})

const otherTool = requests.object('ResponseOtherTool', {
  type: z.string().refine((type) => type !== 'function' && type !== 'namespace', { abort: true }),
})

const namespaceTool = requests.object('ResponseNamespaceTool', {
  type: z.literal('namespace'),
  name: z.string().min(1).max(LONGEST_NAMESPACE, { abort: true }),
  description: z.string().nullish().describe('Accepted, and not shown to the model.'),
  tools: z
    .array(z.union([functionTool, otherTool]).register(requestSchemas, { id: 'ResponseInnerTool' }))
    .max(MOST_TOOLS),
})

const anyTool = z
  .union([requests.union('ResponseNamedTool', 'type', [functionTool, namespaceTool]), otherTool])
  .describe('Tools of types other than `function` and `namespace` are skipped.')
  .register(requestSchemas, { id: 'ResponseAnyTool' })

const tools = z
  .array(anyTool)
  .max(MOST_TOOLS)
  .superRefine((tools, context) => {
    const functions = functionsOf(tools).map(({ tool: { name }, place }) => ({ name, path: [...place, 'name'] }))
    if (functions.length > MOST_FUNCTIONS) {
      context.addIssue({ code: 'custom', message: `expected at most ${MOST_FUNCTIONS} functions` })
    }
    checkToolNames(functions, context)
  })

const choiceMode = z.enum(['none', 'auto', 'required'])
const namedFunction = requests.object('ResponseNamedFunction', { type: z.literal('function'), name: z.string().min(1) })
const allowedTools = requests.object('ResponseAllowedTools', {
  type: z.literal('allowed_tools'),
  mode: z.enum(['auto', 'required']),
  tools: z
    .array(
      requests.object('ResponseAllowedTool', {
        type: z.string(),
        name: z.string().nullish(),
        server_label: z.string().nullish().describe('Accepted and ignored, as MCP servers are.'),
      }),
    )
    .min(1)
    .max(MOST_TOOLS),
})
const namedTools = requests.union('ResponseNamedTools', 'type', [namedFunction, allowedTools])
const toolChoice = z.union([choiceMode, namedTools])

const textFormat = requests.union('ResponseFormatChoice', 'type', [
  requests.object('ResponseTextFormat', { type: z.literal('text') }),
  requests.object('ResponseJsonSchemaFormat', {
    type: z.literal('json_schema'),
    name: z.string().min(1),
    description: z.string().nullish(),
    schema: jsonSchema,
    strict: z.boolean().nullish(),
  }),
  requests.object('ResponseJsonObjectFormat', { type: z.literal('json_object'), schema: jsonSchema.optional() }),
])
const text = requests.object('ResponseTextOptions', {
  format: textFormat.nullish(),
  verbosity: z.enum(['low', 'medium', 'high']).nullish(),
})

const reasoning = requests.object('ResponseReasoningOptions', {
  effort: anyEffort.nullish(),
  summary: z
    .enum(['auto', 'concise', 'detailed'])
    .nullish()
    .describe('Any value puts the thought, as it is, into `summary` in place of `content`.'),
})

const LOG_PROBS = 'message.output_text.logprobs'
const ENCRYPTED = 'reasoning.encrypted_content'
/** Other values concern skipped tools, or fields that a response always has. */
const include = z
  .array(
    z.enum([
      LOG_PROBS,
      ENCRYPTED,
      'message.input_image.image_url',
      'file_search_call.results',
      'web_search_call.results',
      'web_search_call.action.sources',
      'computer_call_output.output.image_url',
      'code_interpreter_call.outputs',
    ]),
  )
  .max(100)

const metadata = pairs().register(requestSchemas, { id: 'ResponseMetadata' })

const streamOptions = requests.object('ResponseStreamOptions', {
  include_obfuscation: z.boolean().nullish().describe('Accepted and ignored: nothing is obfuscated.'),
})

const items = z
  .array(inputItem)
  .min(1)
  .max(MOST_MESSAGES)
  .superRefine(
    limitCalls(
      ({ type }: InputItemBody) => type === 'function_call',
      ({ type }) => type === 'reasoning',
    ),
  )
const input = z.union([z.string(), items])

/** Fields that determine the prompt. Requests that count its tokens take them too. */
const promptFields = {
  model: z.string(),
  input,
  instructions: z.string().nullish().describe('Not inherited from an earlier response.'),
  previous_response_id: z.string().min(1).nullish(),
  tools: tools.nullish(),
  tool_choice: toolChoice.nullish(),
  parallel_tool_calls: z.boolean().nullish(),
  text: text.nullish(),
  reasoning: reasoning.nullish(),
  max_output_tokens: z.int().min(0).nullish(),
  truncation: z
    .literal('disabled', 'a prompt that exceeds the context is rejected; only disabled is supported')
    .nullish(),
  vision_config: replyOptions.vision_config,
  conversation: unsupported('conversations are not supported; use previous_response_id'),
  prompt: unsupported('stored prompts are not supported'),
  // Rejected, unlike other unknown fields: without any notice, the answer would lack the structure, or be longer.
  response_format: ofChats('text.format'),
  max_tokens: ofChats('max_output_tokens'),
  max_completion_tokens: ofChats('max_output_tokens'),
  reasoning_effort: ofChats('reasoning.effort'),
}

/** Body of `POST /v1/responses`. Unknown keys are dropped, as in chats. */
export const responseRequest = requests.object('ResponseRequest', {
  ...promptFields,
  background: z.literal(false, 'responses in the background are not supported').nullish(),
  context_management: unsupported('compaction is not supported'),
  moderation: unsupported('nothing is moderated'),
  frequency_penalty: replyOptions.frequency_penalty,
  include: include.nullish(),
  max_tool_calls: z.int().min(0).nullish().describe('Accepted and ignored: the server itself calls no tools.'),
  metadata: metadata.nullish(),
  presence_penalty: replyOptions.presence_penalty,
  prompt_cache_key: z.string().nullish().describe('Accepted and ignored.'),
  safety_identifier: z.string().nullish().describe('Accepted and ignored.'),
  service_tier: z.string().nullish().describe('Accepted and ignored.'),
  store: z.boolean().nullish().describe('True by default.'),
  stream: z.boolean().nullish(),
  stream_options: streamOptions.nullish(),
  temperature: replyOptions.temperature,
  top_k: replyOptions.top_k,
  top_logprobs: topLogprobs,
  top_p: replyOptions.top_p,
  user: z.string().nullish().describe('Accepted and ignored.'),
})

export const responseBody = bodyFormat(import.meta.url, 'responseRequest', responseRequest)

/** A message of a WebSocket that asks for a response. */
export const responseCreate = z.object({
  // First, so that an error about another type of message names it.
  type: z.literal('response.create'),
  ...responseRequest.shape,
  stream: z.literal(true, 'expected true: a WebSocket always streams').nullish(),
  stream_id: z
    .string()
    .regex(/^[\w.-]{1,256}$/, 'expected 1 to 256 letters, digits, `_`, `-` and `.`')
    .optional(),
  generate: z.boolean().nullish(),
})

export const responseCreateBody = bodyFormat(import.meta.url, 'responseCreate', responseCreate)

/** Body of `POST /v1/responses/input_tokens`. */
export const responsePrompt = z.object(promptFields).register(requestSchemas, { id: 'ResponsePrompt' })

export const responsePromptBody = bodyFormat(import.meta.url, 'responsePrompt', responsePrompt)

export function isFunction(tool: ToolBody): tool is FunctionToolBody {
  return tool.type === 'function'
}

export function isNamespace(tool: ToolBody): tool is NamespaceToolBody {
  return tool.type === 'namespace'
}

export interface PlacedFunction {
  /** The function as the model knows it: its name begins with that of its namespace. */
  readonly tool: FunctionToolBody
  /** How the client knows it. */
  readonly called: { readonly name: string; readonly namespace?: string }
  /** Its index among the request's tools, with those of a namespace in its place. */
  readonly index: number
  /** Its place in the list of tools. */
  readonly place: (string | number)[]
}

export function functionsOf(tools: readonly ToolBody[]): PlacedFunction[] {
  let next = 0
  const placed = (tool: ToolBody, place: PlacedFunction['place'], within: { namespace?: string }): PlacedFunction[] => {
    const index = next++
    if (!isFunction(tool)) return []
    const called = { name: tool.name, ...within }
    return [{ tool: { ...tool, name: knownName(called) }, called, index, place }]
  }
  return tools.flatMap((tool, at) =>
    isNamespace(tool)
      ? tool.tools.flatMap((inner, index) => placed(inner, [at, 'tools', index], { namespace: tool.name }))
      : placed(tool, [at], {}),
  )
}

/** Returns the name by which the model knows a function. */
export function knownName({ name, namespace }: { name: string; namespace?: string | null | undefined }): string {
  return namespace ? `${namespace}__${name}` : name
}

/** Whether the client asks for log-probabilities. */
export function wantsLogProbs({ include, top_logprobs: top }: ResponseRequestBody): boolean {
  return (include ?? []).includes(LOG_PROBS) || (top ?? 0) > 0
}

/** Whether thoughts have `encrypted_content`. */
export function wantsEncrypted({ include }: ResponseRequestBody): boolean {
  return (include ?? []).includes(ENCRYPTED)
}

export type FunctionToolBody = z.output<typeof functionTool>
type NamespaceToolBody = z.output<typeof namespaceTool>
export type ToolBody = FunctionToolBody | NamespaceToolBody | z.output<typeof otherTool>
export type ResponsePromptBody = z.output<typeof responsePrompt>
export type ResponseRequestBody = z.output<typeof responseRequest>
/** A request over HTTP or a WebSocket. */
export type ResponseCreateBody = ResponseRequestBody &
  Pick<Partial<z.output<typeof responseCreate>>, 'stream_id' | 'generate'>
