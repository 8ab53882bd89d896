import { TokenTrie } from './token-trie.ts'

/** The token that ends a text. */
export const END = 256

/** A vocabulary with one token per byte, which can spell any text. */
export const BYTES = new TokenTrie({
  tokens: Array.from({ length: 256 }, (_, byte) => String.fromCharCode(byte)),
  stopTokens: [END],
})
