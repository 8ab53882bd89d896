import { z } from 'zod'

const finishReason = z.enum(['stop', 'length', 'tool_calls', 'tool_error', 'tool_limit', 'interrupted'])

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

/** Answer of `POST /v1/chat/completions` without `stream`. */
export const chatCompletion = z.object({
  ...reply,
  object: z.literal('chat.completion'),
  choices: z.array(
    z.object({
      index: z.int().min(0),
      message: z.object({ role: z.literal('assistant'), content: z.string().nullable() }),
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
      delta: z.object({ role: z.literal('assistant').optional(), content: z.string().optional() }),
      finish_reason: finishReason.nullable(),
    }),
  ),
  usage: usage.nullish(),
})

export type UsageBody = z.output<typeof usage>
export type ChatCompletionBody = z.output<typeof chatCompletion>
export type ChatCompletionChunkBody = z.output<typeof chatCompletionChunk>
