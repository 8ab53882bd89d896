import { z } from 'zod'

export const finishReason = z.enum(['stop', 'length', 'tool_calls', 'tool_error', 'tool_limit', 'interrupted'])

export const usage = z.object({
  prompt_tokens: z.int().min(0),
  completion_tokens: z.int().min(0),
  total_tokens: z.int().min(0),
  prompt_tokens_details: z.object({ audio_tokens: z.int().min(0) }).nullish(),
})

const reply = {
  id: z.string(),
  created: z.int().min(0),
  model: z.string(),
}

const functionCall = z.object({
  id: z.string(),
  type: z.literal('function'),
  function: z.object({ name: z.string(), arguments: z.string() }),
})

export const replyMessage = z.object({
  role: z.literal('assistant'),
  content: z.string().nullable().describe('Null when the model only called tools.'),
  reasoning_content: z.string().optional(),
  tool_calls: z.array(functionCall).optional(),
})

/** A piece of a call. The first one has its id, type and name; those after it have arguments to append. */
const functionCallChunk = z.object({
  index: z.int().min(0),
  id: z.string().optional(),
  type: z.literal('function').optional(),
  function: z.object({ name: z.string().optional(), arguments: z.string() }),
})

const delta = z.object({
  role: z.literal('assistant').optional(),
  content: z.string().optional(),
  reasoning_content: z.string().optional(),
  tool_calls: z.array(functionCallChunk).optional(),
})

/** Answer of `POST /v1/chat/completions` without `stream`. */
export const chatCompletion = z.object({
  ...reply,
  object: z.literal('chat.completion'),
  choices: z.array(
    z.object({
      index: z.int().min(0),
      message: replyMessage,
      finish_reason: finishReason.nullable(),
    }),
  ),
  usage: usage.nullable(),
})

/** One event of the stream. */
export const chatCompletionChunk = z.object({
  ...reply,
  object: z.literal('chat.completion.chunk'),
  choices: z.array(
    z.object({
      index: z.int().min(0),
      delta,
      finish_reason: finishReason.nullable(),
    }),
  ),
  usage: usage.nullish(),
})

export type UsageBody = z.output<typeof usage>
export type ChatCompletionBody = z.output<typeof chatCompletion>
export type ChatCompletionChunkBody = z.output<typeof chatCompletionChunk>
export type ReplyMessageBody = z.output<typeof replyMessage>
export type DeltaBody = z.output<typeof delta>
