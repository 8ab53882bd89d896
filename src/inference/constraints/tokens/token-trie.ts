/** A model's vocabulary, as constraints see it. */
export interface Vocabulary {
  /** Bytes of each token, one character per byte; empty for tokens that never match. */
  readonly tokens: readonly string[]
  /** Each of them ends a text where the constraint allows the end. */
  readonly stopTokens: readonly number[]
}

/** No token. */
export const NONE = -1

/**
 * The texts of a vocabulary as a byte trie. Its nodes are stored in depth-first order, so a walk skips a subtree by
 * jumping to its end.
 */
export class TokenTrie {
  readonly vocabulary: Vocabulary
  /** Length of the longest token, in bytes. */
  readonly longest: number
  /** By node: the byte that leads to it. */
  readonly bytes: Uint8Array
  /** By node: number of bytes before its byte. */
  readonly depths: Uint16Array
  /** By node: index of the first node after its subtree. */
  readonly ends: Int32Array
  /** By node: a token whose text ends there, or `NONE`. */
  readonly tokens: Int32Array
  /** By token: another one with the same text, or `NONE`. */
  readonly twins: Int32Array

  constructor(vocabulary: Vocabulary) {
    const texts = vocabulary.tokens
    const order = [...texts.keys()].filter((token) => texts[token] !== '')
    order.sort((a, b) => (texts[a]! < texts[b]! ? -1 : texts[a]! > texts[b]! ? 1 : a - b))
    this.vocabulary = vocabulary
    this.longest = texts.reduce((most, { length }) => Math.max(most, length), 0)
    const most = texts.reduce((total, { length }) => total + length, 0)
    const bytes = new Uint8Array(most)
    const depths = new Uint16Array(most)
    const ends = new Int32Array(most)
    const tokens = new Int32Array(most).fill(NONE)
    this.twins = new Int32Array(texts.length).fill(NONE)
    /** The nodes of the previous text, by depth. */
    const path: number[] = []
    let count = 0
    let before = ''
    for (const token of order) {
      const text = texts[token]!
      const shared = commonLength(before, text)
      while (path.length > shared) ends[path.pop()!] = count
      for (let depth = shared; depth < text.length; depth++) {
        bytes[count] = text.charCodeAt(depth)
        depths[count] = depth
        path.push(count++)
      }
      const last = path.at(-1)!
      this.twins[token] = tokens[last]!
      tokens[last] = token
      before = text
    }
    for (const node of path) ends[node] = count
    this.bytes = bytes.slice(0, count)
    this.depths = depths.slice(0, count)
    this.ends = ends.slice(0, count)
    this.tokens = tokens.slice(0, count)
  }
}

function commonLength(a: string, b: string): number {
  let length = 0
  while (length < a.length && a.charCodeAt(length) === b.charCodeAt(length)) length++
  return length
}
