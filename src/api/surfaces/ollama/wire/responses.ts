import { z } from 'zod'
import { responseSchemas } from '../../../http/wire/components.ts'

/** Responses that Ollama's clients read. `openapi.json` describes them if the setting is on. */

const rankedToken = { token: z.string(), logprob: z.number(), bytes: z.array(z.int().min(0).max(255)) }
const logProb = z
  .object({
    ...rankedToken,
    top_logprobs: z.array(z.object(rankedToken).register(responseSchemas, { id: 'OllamaRankedToken' })).optional(),
  })
  .register(responseSchemas, { id: 'OllamaLogProb' })

const calledFunction = z
  .object({ index: z.int().min(0), name: z.string(), arguments: z.unknown() })
  .register(responseSchemas, { id: 'OllamaReplyFunction' })
const toolCall = z
  .object({ id: z.string(), function: calledFunction })
  .register(responseSchemas, { id: 'OllamaReplyToolCall' })

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

const message = z
  .object({
    role: z.literal('assistant'),
    content: z.string(),
    thinking: z.string().optional(),
    tool_calls: z.array(toolCall).optional(),
  })
  .register(responseSchemas, { id: 'OllamaReplyMessage' })

/** The response of `POST /api/chat`, or a line of it. */
export const chatReply = z.object({ ...line, message }).register(responseSchemas, { id: 'OllamaChatReply' })

/** The response of `POST /api/generate`, or a line of it. */
export const generateReply = z
  .object({ ...line, response: z.string(), thinking: z.string().optional() })
  .register(responseSchemas, { id: 'OllamaGenerateReply' })

const details = z
  .object({
    parent_model: z.string(),
    format: z.string(),
    family: z.string(),
    families: z.array(z.string()),
    parameter_size: z.string(),
    quantization_level: z.string(),
  })
  .register(responseSchemas, { id: 'OllamaModelDetails' })

const identity = { name: z.string(), model: z.string(), size: z.int(), digest: z.string(), details }

const model = z.object({ ...identity, modified_at: z.string() }).register(responseSchemas, { id: 'OllamaModel' })

/** Response of `GET /api/tags`. */
export const modelList = z.object({ models: z.array(model) }).register(responseSchemas, { id: 'OllamaModelList' })

const runningModel = z
  .object({ ...identity, expires_at: z.string(), size_vram: z.int(), context_length: z.int() })
  .register(responseSchemas, { id: 'OllamaRunningModel' })

/** Response of `GET /api/ps`. */
export const runningModelList = z
  .object({ models: z.array(runningModel) })
  .register(responseSchemas, { id: 'OllamaRunningModelList' })

const facts = z.record(z.string(), z.unknown()).register(responseSchemas, { id: 'OllamaModelInfo' })

/** Response of `POST /api/show`. */
export const shownModel = z
  .object({
    license: z.string(),
    modelfile: z.string(),
    parameters: z.string(),
    template: z.string(),
    details,
    model_info: facts,
    capabilities: z.array(z.string()),
    modified_at: z.string(),
  })
  .register(responseSchemas, { id: 'OllamaShownModel' })

/** Response of `GET /api/version`. */
export const versionOf = z.object({ version: z.string() }).register(responseSchemas, { id: 'OllamaVersion' })

/** Body of every error. */
export const ollamaError = z.object({ error: z.string() }).register(responseSchemas, { id: 'OllamaError' })

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
