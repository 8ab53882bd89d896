import { z } from 'zod'
import { responseSchemas, responses } from '../../../http/wire/components.ts'

export const finishReason = z.enum(['stop', 'length', 'tool_calls', 'tool_error', 'tool_limit', 'interrupted'])

const tokens = z.int().min(0)
const openAiTokens = tokens.optional().describe('Only with `compatibility: openai`, and in `/v1/completions`.')

const promptTokensDetails = responses.object('PromptTokensDetails', {
  audio_tokens: tokens,
  image_tokens: openAiTokens,
  cached_tokens: openAiTokens,
})

export const usage = responses.object('Usage', {
  prompt_tokens: tokens,
  completion_tokens: tokens,
  total_tokens: tokens,
  prompt_tokens_details: promptTokensDetails.nullish(),
  completion_tokens_details: responses
    .object('CompletionTokensDetails', { reasoning_tokens: tokens })
    .optional()
    .describe('As `image_tokens`.'),
})

const reply = {
  id: z.string(),
  created: z.int().min(0),
  model: z.string(),
  system_fingerprint: z.string().optional().describe('Only with `compatibility: openai`, if known.'),
}

const calledFunction = responses.object('ReplyFunction', { name: z.string(), arguments: z.string() })

const functionCall = responses.object('ReplyToolCall', {
  id: z.string(),
  type: z.literal('function'),
  function: calledFunction,
})

export const replyMessage = responses.object('ReplyMessage', {
  role: z.literal('assistant'),
  content: z.string().nullable().describe('Null when the model only called tools.'),
  refusal: z.null().optional().describe('Only with `compatibility: openai`.'),
  reasoning_content: z.string().optional(),
  tool_calls: z.array(functionCall).optional(),
})

const functionChunk = responses.object('FunctionChunk', { name: z.string().optional(), arguments: z.string() })

/** A piece of a tool call. The first one has the id, type and name; later ones have arguments to append. */
const functionCallChunk = responses.object('ToolCallChunk', {
  index: z.int().min(0),
  id: z.string().optional(),
  type: z.literal('function').optional(),
  function: functionChunk,
})

export const delta = responses.object('Delta', {
  role: z.literal('assistant').optional(),
  content: z.string().optional(),
  reasoning_content: z.string().optional(),
  tool_calls: z.array(functionCallChunk).optional(),
})

const rankedToken = {
  token: z.string().describe('U+FFFD stands for bytes that do not form a whole character.'),
  logprob: z.number().describe('-9999 for a token that cannot follow.'),
  bytes: z.array(z.int().min(0).max(255)),
}

export const tokenLogProb = responses.object('TokenLogProb', {
  ...rankedToken,
  top_logprobs: z.array(z.object(rankedToken).register(responseSchemas, { id: 'RankedToken' })),
})

export const ratedAnnotation = responses.object('RatedAnnotation', {
  mention: z.string().nullable(),
  confidence: z
    .number()
    .min(0)
    .max(1)
    .nullable()
    .describe('How likely the model was to write a place near this one; null where that is not known.'),
})

/** Log-probabilities of the model's own tokens, without its reasoning. */
export const logProbs = responses.object('LogProbs', {
  content: z.array(tokenLogProb),
  refusal: z.null(),
  annotations: z
    .array(ratedAnnotation)
    .optional()
    .describe(
      'An extension: boxes or points of `content`, in its order, where `annotation_format` asks for them, there is one image and no tool, and `top_logprobs` is 20. In a stream, with the last chunk.',
    ),
})

const choice = responses.object('Choice', {
  index: z.int().min(0),
  message: replyMessage,
  logprobs: logProbs.nullish().describe('Present when the request asks for them.'),
  finish_reason: finishReason.nullable(),
})

/** Response of `POST /v1/chat/completions` without `stream`. */
export const chatCompletion = responses.object('ChatCompletion', {
  ...reply,
  object: z.literal('chat.completion'),
  choices: z.array(choice),
  usage: usage.nullable(),
})

const chunkChoice = responses.object('ChunkChoice', {
  index: z.int().min(0),
  delta,
  logprobs: logProbs.nullish().describe('Of the tokens of this chunk; present if the request asks for them.'),
  finish_reason: finishReason.nullable(),
})

/** One event of a streamed response. */
export const chatCompletionChunk = responses.object('ChatCompletionChunk', {
  ...reply,
  object: z.literal('chat.completion.chunk'),
  choices: z.array(chunkChoice),
  usage: usage.nullish(),
})

export type UsageBody = z.output<typeof usage>
export type ChatCompletionBody = z.output<typeof chatCompletion>
export type ChatCompletionChunkBody = z.output<typeof chatCompletionChunk>
export type LogProbsBody = z.output<typeof logProbs>
export type ReplyMessageBody = z.output<typeof replyMessage>
export type DeltaBody = z.output<typeof delta>
