import type { GgufMetadata } from '../families/gguf.ts'
import { GgufArray } from './gguf.ts'

/** `LLAMA_TOKEN_TYPE_CONTROL`: a token that is not part of a model's text unless the server asks for it. */
const CONTROL = 3

/** Which of the wanted tokens a model's vocabulary has, and whether each is a control token. */
export function findTokens(
  language: GgufMetadata,
  wanted: readonly string[],
): ReadonlyMap<string, { control: boolean }> {
  const found = new Map<string, { control: boolean }>()
  const tokens = language.get('tokenizer.ggml.tokens')
  if (!(tokens instanceof GgufArray)) return found
  const types = language.get('tokenizer.ggml.token_type')
  const names = new Set<unknown>(wanted)
  let id = 0
  for (const token of tokens) {
    if (names.has(token)) {
      const control = types instanceof GgufArray && types.at(id) === CONTROL
      found.set(token as string, { control })
    }
    id++
  }
  return found
}
