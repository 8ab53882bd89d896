import { z } from 'zod'
import { responseSchemas, responses } from '../../../http/wire/components.ts'

/** Responses that Ollama's clients read. `openapi.json` describes them if the setting is on. */

const rankedToken = { token: z.string(), logprob: z.number(), bytes: z.array(z.int().min(0).max(255)) }
const logProb = responses.object('OllamaLogProb', {
  ...rankedToken,
  top_logprobs: z.array(z.object(rankedToken).register(responseSchemas, { id: 'OllamaRankedToken' })).optional(),
})

const calledFunction = responses.object('OllamaReplyFunction', {
  index: z.int().min(0),
  name: z.string(),
  arguments: z.unknown(),
})
const toolCall = responses.object('OllamaReplyToolCall', { id: z.string(), function: calledFunction })

/** The contents of one line or of the whole reply. */
export interface SaidBody {
  readonly text: string
  readonly thinking: string
  readonly toolCalls: readonly ToolCallBody[]
}

const count = z.int().min(0)
const nanoseconds = count.describe('Nanoseconds.')
/** The end of a reply. */
const end = {
  done_reason: z.enum(['stop', 'length', 'load']),
  total_duration: nanoseconds.optional(),
  load_duration: nanoseconds.optional(),
  prompt_eval_count: count.optional(),
  prompt_eval_duration: nanoseconds.optional(),
  eval_count: count.optional(),
  eval_duration: nanoseconds.optional(),
}
const line = {
  model: z.string(),
  created_at: z.string(),
  logprobs: z.array(logProb).optional(),
  done: z.boolean().describe('Whether this is the last part, which has the counts and durations.'),
  ...z.object(end).partial().shape,
}

const message = responses.object('OllamaReplyMessage', {
  role: z.literal('assistant'),
  content: z.string(),
  thinking: z.string().optional(),
  tool_calls: z.array(toolCall).optional(),
})

/** The response of `POST /api/chat`, or a line of it. */
export const chatReply = responses.object('OllamaChatReply', { ...line, message })

/** The response of `POST /api/generate`, or a line of it. */
export const generateReply = responses.object('OllamaGenerateReply', {
  ...line,
  response: z.string(),
  thinking: z.string().optional(),
})

const details = responses.object('OllamaModelDetails', {
  parent_model: z.string(),
  format: z.string(),
  family: z.string(),
  families: z.array(z.string()),
  parameter_size: z.string(),
  quantization_level: z.string(),
})

const identity = { name: z.string(), model: z.string(), size: z.int(), digest: z.string(), details }

const model = responses.object('OllamaModel', { ...identity, modified_at: z.string() })

/** Response of `GET /api/tags`. */
export const modelList = responses.object('OllamaModelList', { models: z.array(model) })

const runningModel = responses.object('OllamaRunningModel', {
  ...identity,
  expires_at: z.string(),
  size_vram: z.int(),
  context_length: z.int(),
})

/** Response of `GET /api/ps`. */
export const runningModelList = responses.object('OllamaRunningModelList', { models: z.array(runningModel) })

const facts = z.record(z.string(), z.unknown()).register(responseSchemas, { id: 'OllamaModelInfo' })

/** Response of `POST /api/show`. */
export const shownModel = responses.object('OllamaShownModel', {
  license: z.string(),
  modelfile: z.string(),
  parameters: z.string(),
  template: z.string(),
  details,
  model_info: facts,
  capabilities: z.array(z.string()),
  modified_at: z.string(),
})

const vector = z.array(z.number())

/** Response of `POST /api/embed`. */
export const embedReply = responses.object('OllamaEmbedReply', {
  model: z.string(),
  embeddings: z.array(vector),
  total_duration: nanoseconds,
  load_duration: nanoseconds,
  prompt_eval_count: count,
})

/** Response of `POST /api/embeddings`. */
export const embeddingReply = responses.object('OllamaEmbeddingReply', { embedding: vector })

/** Response of `GET /api/version`. */
export const versionOf = responses.object('OllamaVersion', { version: z.string() })

/** Body of every error. */
export const ollamaError = responses.object('OllamaError', { error: z.string() })

const endObject = z.object(end)
type Heading = Pick<z.output<typeof chatReply>, 'model' | 'created_at' | 'logprobs'>

export type LogProbBody = z.output<typeof logProb>
export type ToolCallBody = z.output<typeof toolCall>
export type EndBody = { readonly done: true } & z.output<typeof endObject>
export type LineBody = Heading & ({ readonly done: false } | EndBody)
export type ModelDetailsBody = z.output<typeof details>
export type ModelBody = z.output<typeof model>
export type RunningModelBody = z.output<typeof runningModel>
export type ShownModelBody = z.output<typeof shownModel>
