import type { ChatMeasure } from '../../../conversation/chat.ts'
import type { InputTokensBody } from './wire/input-tokens.ts'

/** Converts what the prompt of a chat takes. */
export function toInputTokens({ promptTokens, imageTokens, audioTokens, exact }: ChatMeasure): InputTokensBody {
  return {
    object: 'response.input_tokens',
    input_tokens: promptTokens,
    input_tokens_details: { image_tokens: imageTokens, audio_tokens: audioTokens },
    estimated: !exact,
  }
}
