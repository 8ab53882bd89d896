import { z } from 'zod'
import type { MediaUrl } from '../../../../conversation/request/message.ts'
import { bodyFormat } from '../../../http/body/body-format.ts'
import { asText, checkLength, clientMap } from '../../../http/wire/client-json.ts'
import { requestSchemas, requests } from '../../../http/wire/components.ts'
import { MOST_CALLS, MOST_MESSAGES, MOST_PARTS } from '../../openai/wire/messages.ts'
import { vllmSampling } from '../../openai/wire/reply-options.ts'
import { checkFunctionNames } from '../../openai/wire/tool-names.ts'

const MOST_TOOLS = 256
const MOST_STOPS = 32
const LONGEST_STOP = 256
const MOST_LOGPROBS = 20

const base64: z.ZodType<MediaUrl, string> = z.string().min(1, 'expected base64')
const images = z.array(base64).max(MOST_PARTS).nullish()

const values = clientMap(z.unknown()).register(requestSchemas, { id: 'OllamaArguments' })
const calledFunction = requests.object('OllamaCalledFunction', { name: z.string().min(1), arguments: asText(values) })
const toolCall = requests.object('OllamaToolCall', { id: z.string().nullish(), function: calledFunction })

const message = requests.object('OllamaMessage', {
  role: z.enum(['system', 'user', 'assistant', 'tool']),
  content: z.string().nullish(),
  thinking: z.string().nullish(),
  images,
  tool_calls: z.array(toolCall).max(MOST_CALLS).nullish(),
  tool_call_id: z.string().nullish(),
  tool_name: z.string().nullish(),
})

const schema = clientMap(z.unknown()).register(requestSchemas, { id: 'OllamaSchema' })
const declaredFunction = requests.object('OllamaFunction', {
  name: z.string().min(1),
  description: z.string().nullish(),
  parameters: schema.nullish(),
})
const tool = requests.object('OllamaTool', { type: z.literal('function'), function: declaredFunction })

const tools = z.array(tool).max(MOST_TOOLS).superRefine(checkFunctionNames)

const stop = z.string().min(1).max(LONGEST_STOP)
const options = requests.object('OllamaOptions', {
  num_predict: z.int().min(-2).nullish().describe('-1 and -2: as many as fit the context.'),
  seed: z.int().nullish(),
  temperature: z.number().min(0).max(2).nullish(),
  top_k: z.int().min(-1).nullish().describe('-1 and 0: no limit.'),
  top_p: z.number().min(0).max(1).nullish().describe('0: always the likeliest token.'),
  presence_penalty: z.number().min(-2).max(2).nullish(),
  frequency_penalty: z.number().min(-2).max(2).nullish(),
  min_p: vllmSampling.min_p,
  repeat_penalty: z.number().min(0).max(2).nullish().describe('For tokens of the prompt and the reply.'),
  stop: z.union([stop, z.array(stop).max(MOST_STOPS)]).nullish(),
})

const reply = {
  model: z.string(),
  stream: z.boolean().nullish().describe('True by default.'),
  format: z.union([z.enum(['', 'json']), schema.superRefine(checkLength)]).nullish(),
  options: options.nullish(),
  think: z.union([z.boolean(), z.enum(['low', 'medium', 'high', 'max'])]).nullish(),
  logprobs: z.boolean().nullish(),
  top_logprobs: z.int().min(0).max(MOST_LOGPROBS).nullish(),
}

/** Body of `POST /api/chat`. Unknown keys are dropped. */
export const chatRequest = requests.object('OllamaChatRequest', {
  ...reply,
  messages: z.array(message).max(MOST_MESSAGES).nullish(),
  tools: tools.nullish(),
})

/** A field that is rejected unless it is empty. */
const unsupported = (what: string) =>
  z
    .unknown()
    .refine((value) => !value || (Array.isArray(value) && value.length === 0), `${what} not supported`)
    .optional()

/** Body of `POST /api/generate`. */
export const generateRequest = requests.object('OllamaGenerateRequest', {
  ...reply,
  prompt: z.string().nullish(),
  system: z.string().nullish(),
  images,
  suffix: unsupported('filling in the middle is'),
  template: unsupported('templates of requests are'),
  raw: unsupported('prompts without a template are'),
  context: unsupported('contexts of earlier replies are'),
})

/** Body of `POST /api/show`. Older clients say `name`. */
export const showRequest = requests.object('OllamaShowRequest', {
  model: z.string().nullish(),
  name: z.string().nullish(),
})

const MOST_INPUTS = 2048
const vectors = {
  model: z.string(),
  dimensions: z.int().min(1).nullish(),
  truncate: z.boolean().nullish().describe('True by default: longer texts are cut to what the model takes.'),
}

/** Body of `POST /api/embed`. */
export const embedRequest = requests.object('OllamaEmbedRequest', {
  ...vectors,
  input: z.union([z.string(), z.array(z.string()).max(MOST_INPUTS)]).nullish(),
})

/** Body of `POST /api/embeddings`, which older clients use. */
export const embeddingRequest = requests.object('OllamaEmbeddingRequest', {
  ...vectors,
  prompt: z.string().nullish(),
})

export const chatBody = bodyFormat(import.meta.url, 'chatRequest', chatRequest)
export const generateBody = bodyFormat(import.meta.url, 'generateRequest', generateRequest)
export const showBody = bodyFormat(import.meta.url, 'showRequest', showRequest)
export const embedBody = bodyFormat(import.meta.url, 'embedRequest', embedRequest)
export const embeddingBody = bodyFormat(import.meta.url, 'embeddingRequest', embeddingRequest)

const replyObject = z.object(reply)
export type ReplyBody = z.output<typeof replyObject>
export type ChatBody = z.output<typeof chatRequest>
export type GenerateBody = z.output<typeof generateRequest>
export type MessageBody = z.output<typeof message>
