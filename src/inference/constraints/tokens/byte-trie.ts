import { TokenTrie } from './token-trie.ts'

/** The token that ends a text. */
export const END = 256

/** A vocabulary in which each byte is a token of its own, so that any text can be followed. */
export const BYTES = new TokenTrie({
  tokens: Array.from({ length: 256 }, (_, byte) => String.fromCharCode(byte)),
  stopTokens: [END],
})
