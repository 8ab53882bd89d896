import { z } from 'zod'
import { responseSchemas } from '../../../http/wire/components.ts'

export const finishReason = z.enum(['stop', 'length', 'tool_calls', 'tool_error', 'tool_limit', 'interrupted'])

const promptTokensDetails = z
  .object({ audio_tokens: z.int().min(0) })
  .register(responseSchemas, { id: 'PromptTokensDetails' })

export const usage = z
  .object({
    prompt_tokens: z.int().min(0),
    completion_tokens: z.int().min(0),
    total_tokens: z.int().min(0),
    prompt_tokens_details: promptTokensDetails.nullish(),
  })
  .register(responseSchemas, { id: 'Usage' })

const reply = {
  id: z.string(),
  created: z.int().min(0),
  model: z.string(),
  system_fingerprint: z.string().optional().describe('Only with `compatibility: openai`, if known.'),
}

const calledFunction = z
  .object({ name: z.string(), arguments: z.string() })
  .register(responseSchemas, { id: 'ReplyFunction' })

const functionCall = z
  .object({
    id: z.string(),
    type: z.literal('function'),
    function: calledFunction,
  })
  .register(responseSchemas, { id: 'ReplyToolCall' })

export const replyMessage = z
  .object({
    role: z.literal('assistant'),
    content: z.string().nullable().describe('Null when the model only called tools.'),
    refusal: z.null().optional().describe('Only with `compatibility: openai`.'),
    reasoning_content: z.string().optional(),
    tool_calls: z.array(functionCall).optional(),
  })
  .register(responseSchemas, { id: 'ReplyMessage' })

const functionChunk = z
  .object({ name: z.string().optional(), arguments: z.string() })
  .register(responseSchemas, { id: 'FunctionChunk' })

/** A piece of a tool call. The first one has the id, type and name; later ones have arguments to append. */
const functionCallChunk = z
  .object({
    index: z.int().min(0),
    id: z.string().optional(),
    type: z.literal('function').optional(),
    function: functionChunk,
  })
  .register(responseSchemas, { id: 'ToolCallChunk' })

export const delta = z
  .object({
    role: z.literal('assistant').optional(),
    content: z.string().optional(),
    reasoning_content: z.string().optional(),
    tool_calls: z.array(functionCallChunk).optional(),
  })
  .register(responseSchemas, { id: 'Delta' })

const rankedToken = {
  token: z.string().describe('U+FFFD stands for bytes that do not form a whole character.'),
  logprob: z.number().describe('-9999 for a token that cannot follow.'),
  bytes: z.array(z.int().min(0).max(255)),
}

export const tokenLogProb = z
  .object({
    ...rankedToken,
    top_logprobs: z.array(z.object(rankedToken).register(responseSchemas, { id: 'RankedToken' })),
  })
  .register(responseSchemas, { id: 'TokenLogProb' })

/** Log-probabilities of the model's own tokens, without its reasoning. */
export const logProbs = z
  .object({ content: z.array(tokenLogProb), refusal: z.null() })
  .register(responseSchemas, { id: 'LogProbs' })

const choice = z
  .object({
    index: z.int().min(0),
    message: replyMessage,
    logprobs: logProbs.nullish().describe('Present when the request asks for them.'),
    finish_reason: finishReason.nullable(),
  })
  .register(responseSchemas, { id: 'Choice' })

/** Response of `POST /v1/chat/completions` without `stream`. */
export const chatCompletion = z
  .object({
    ...reply,
    object: z.literal('chat.completion'),
    choices: z.array(choice),
    usage: usage.nullable(),
  })
  .register(responseSchemas, { id: 'ChatCompletion' })

const chunkChoice = z
  .object({
    index: z.int().min(0),
    delta,
    logprobs: logProbs.nullish().describe('Of the tokens of this chunk; present if the request asks for them.'),
    finish_reason: finishReason.nullable(),
  })
  .register(responseSchemas, { id: 'ChunkChoice' })

/** One event of a streamed response. */
export const chatCompletionChunk = z
  .object({
    ...reply,
    object: z.literal('chat.completion.chunk'),
    choices: z.array(chunkChoice),
    usage: usage.nullish(),
  })
  .register(responseSchemas, { id: 'ChatCompletionChunk' })

export type UsageBody = z.output<typeof usage>
export type ChatCompletionBody = z.output<typeof chatCompletion>
export type ChatCompletionChunkBody = z.output<typeof chatCompletionChunk>
export type LogProbsBody = z.output<typeof logProbs>
export type ReplyMessageBody = z.output<typeof replyMessage>
export type DeltaBody = z.output<typeof delta>
