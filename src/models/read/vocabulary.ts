import type { GgufMetadata } from '../../families/gguf.ts'
import { GgufArray } from './gguf-value.ts'

/** `LLAMA_TOKEN_TYPE_CONTROL`: a token that is not part of a model's text unless the server asks for it. */
const CONTROL = 3

/** The tokens of a model by their ids; null where its files have none. */
export function tokensOf(language: GgufMetadata): GgufArray | readonly unknown[] | null {
  return list(language.get('tokenizer.ggml.tokens'))
}

/** Which of the wanted tokens a model's vocabulary has, and whether each is a control token. */
export function findTokens(
  language: GgufMetadata,
  wanted: readonly string[],
): ReadonlyMap<string, { control: boolean }> {
  const types = list(language.get('tokenizer.ggml.token_type'))
  const tokens = tokensOf(language) ?? []
  const places = tokens instanceof GgufArray ? tokens.find(wanted) : placesOf(tokens, new Set(wanted))
  return new Map([...places].map(([token, id]) => [token, { control: types?.at(id) === CONTROL }]))
}

function placesOf(tokens: readonly unknown[], wanted: ReadonlySet<unknown>): Map<string, number> {
  const places = new Map<string, number>()
  for (const [id, token] of tokens.entries()) if (wanted.has(token)) places.set(token as string, id)
  return places
}

/** Long arrays of a GGUF file are not copied. */
function list(value: unknown): GgufArray | readonly unknown[] | null {
  return value instanceof GgufArray || Array.isArray(value) ? value : null
}
