import type { ChatMeasure } from '../../../conversation/chat.ts'
import type { InputTokensBody } from './wire/input-tokens.ts'

/** Converts the size of a chat's prompt. */
export function toInputTokens({ promptTokens, imageTokens, audioTokens, exact }: ChatMeasure): InputTokensBody {
  return {
    object: 'response.input_tokens',
    input_tokens: promptTokens,
    input_tokens_details: { image_tokens: imageTokens, audio_tokens: audioTokens },
    estimated: !exact,
  }
}
