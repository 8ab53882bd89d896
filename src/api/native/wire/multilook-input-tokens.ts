import { z } from 'zod'
import { responseSchemas, responses } from '../../http/wire/components.ts'
import { estimated } from '../../surfaces/openai/wire/input-tokens.ts'
import { failed, tokenDetails } from './multilook-response.ts'

const tokens = z.int().min(0)

const measured = responses.object('MeasuredPrompt', {
  prompt_index: tokens,
  input_tokens: tokens.describe('Tokens of this prompt, including the whole shared context.'),
})

const result = z.union([measured, failed]).register(responseSchemas, { id: 'MultilookMeasure' })

/** Response of `POST /v1/chat/completions/multilook/input_tokens`. */
export const multilookInputTokens = responses.object('MultilookInputTokens', {
  object: z.literal('chat.completion.multilook.input_tokens'),
  input_tokens: tokens.describe('The prompt_tokens that the usage of a reply would report.'),
  input_tokens_details: tokenDetails,
  context_tokens: tokens.describe('Tokens of the shared context, which is prefilled once.'),
  results: z.array(result),
  estimated,
})

export type MultilookInputTokensBody = z.output<typeof multilookInputTokens>
