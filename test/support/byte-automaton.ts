import { Automaton } from '../../src/inference/constraints/automaton.ts'
import { grammarOf } from '../../src/inference/constraints/constraint-grammar.ts'
import { TokenTrie, type Vocabulary } from '../../src/inference/constraints/tokens/token-trie.ts'
import { isPartOfUtf8 } from '../../src/inference/constraints/utf8.ts'
import type { Constraint } from '../../src/inference/contract/constraint.ts'

/** A token for each byte, one for the end, and then pieces of what constraints are about: of JSON, and marks. */
const END = 256
const BYTES = Array.from({ length: 256 }, (_, byte) => String.fromCharCode(byte))
const PIECES = ['"', '\\', '{', '}', ']', ', ', ': ', '<', '</', '\n', '</parameter>', '</function>', '</tool_call>']
const TOKENS = [...BYTES.map((byte) => (isPartOfUtf8(byte) ? byte : '')), '', ...PIECES, '<|"|>', '<tool_call|>']
export const BYTE_VOCABULARY: Vocabulary = { tokens: TOKENS, stopTokens: [END] }
const trie = new TokenTrie(BYTE_VOCABULARY)

export function byteAutomaton(constraint: Constraint): Automaton {
  return new Automaton(grammarOf(constraint), trie)
}

export function accepts(automaton: Automaton, text: string): boolean {
  const matcher = automaton.createMatcher()
  return Buffer.from(text).every((byte) => matcher.accept(byte)) && matcher.accept(END)
}

/** A random text of the grammar; null when it does not end within the limit, in bytes. */
export function randomText(automaton: Automaton, draw: () => number, limit = 3000): string | null {
  const matcher = automaton.createMatcher()
  let bytes = ''
  for (;;) {
    const mask = matcher.nextTokens()
    const allowed = tokensOf(mask)
    if (allowed.length === 0) throw new Error(`No token is allowed after ${JSON.stringify(bytes)}`)
    const pieces = allowed.filter((token) => token > END)
    // Where the text may end, it often does.
    const token =
      allowed.includes(END) && draw() < 0.3
        ? END
        : pieces.length > 0 && draw() < 0.3
          ? pieces[Math.floor(draw() * pieces.length)]!
          : allowed[Math.floor(draw() * allowed.length)]!
    if (!matcher.accept(token))
      throw new Error(`Token ${token} is allowed and not accepted after ${JSON.stringify(bytes)}`)
    if (token === END)
      return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(Buffer.from(bytes, 'latin1'))
    bytes += TOKENS[token]
    if (bytes.length > limit) return null
  }
}

/** The tokens of a mask, in order. */
export function tokensOf(mask: Int32Array): number[] {
  const tokens: number[] = []
  mask.forEach((word, index) => {
    for (let bits = word; bits !== 0; bits &= bits - 1) tokens.push(index * 32 + 31 - Math.clz32(bits & -bits))
  })
  return tokens
}

/** Repeatable, so that a failure can be looked at. */
export function generator(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return state / 2 ** 32
  }
}
