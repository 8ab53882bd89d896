import { z } from 'zod'
import { responses } from '../../../http/wire/components.ts'

const tokens = z.int().min(0)

const details = responses.object('InputTokensDetails', {
  image_tokens: tokens.describe('Tokens of images and of video frames.'),
  audio_tokens: tokens,
})

/** Whether the counts are estimates. */
export const estimated = z.boolean().describe('True if only the servers of the model can count its tokens.')

/** Response of `POST /v1/chat/completions/input_tokens`: the shape of OpenAI's `POST /v1/responses/input_tokens`, and more. */
export const inputTokens = responses.object('InputTokens', {
  object: z.literal('response.input_tokens'),
  input_tokens: tokens.describe('The prompt_tokens that the usage of a reply would report.'),
  input_tokens_details: details,
  estimated,
})

export type InputTokensBody = z.output<typeof inputTokens>
