import type { Vocabulary } from './hub-tokenizer.ts'

/**
 * Prevents untrusted text from becoming control tokens on servers that decode the tokens of a prompt and tokenise its
 * text again, and cut marks such as `<think>` from becoming whole. If other tokens spell the text of a mark, a space is
 * inserted into it: `< |im_end|>`. This holds for any text, across the bounds of parts: the result has no control
 * tokens except those of the prompt.
 */
export class MarkBreaker {
  readonly #vocabulary: Vocabulary
  /** Texts as strings with one character per byte, by their first byte. */
  readonly #marks: ReadonlyMap<string, readonly string[]>
  readonly #control: ReadonlyMap<number, string>
  readonly #longest: number
  /** Cached texts of tokens. */
  readonly #texts: string[] = []
  /** Whether a mark may begin in each token; 0 if unknown. Prompts are long, and most tokens are words. */
  readonly #begins: Uint8Array
  /** The token of each byte. */
  readonly #bytes: readonly number[]

  /**
   * @param reserved further texts that the server treats as control tokens.
   * @throws Error for a vocabulary that cannot spell every text.
   */
  constructor(vocabulary: Vocabulary, reserved: readonly string[]) {
    this.#vocabulary = vocabulary
    const byId = (tokens: ReadonlyMap<string, number>) => [...tokens].map(([text, id]) => [id, latin1(text)] as const)
    const control = byId(vocabulary.control)
    // Blanks are not marks.
    const words = byId(vocabulary.words).filter(([, text]) => isBreakable(unspaced(text)) && text.trim() !== '')
    // Without leading spaces: an additional space would leave such a mark whole, however often it is broken.
    const marks = [...[...control, ...words].map(([, text]) => text), ...reserved.map(latin1)].map(unspaced)
    this.#control = new Map([...control, ...words])
    this.#marks = Map.groupBy(marks, (mark) => mark.charAt(0))
    this.#longest = Math.max(0, ...marks.map(({ length }) => length))
    this.#begins = new Uint8Array(vocabulary.starts.length)
    this.#bytes = byteTokens(vocabulary)
    // A space breaks neither a mark of one byte nor one that begins with spaces.
    if (!marks.every(isBreakable) || Object.keys(this.#bytes).length < 256) {
      throw new Error('with pictures, words cannot be kept from becoming control tokens of this vocabulary')
    }
  }

  /**
   * @param from number of leading tokens that spell no mark among themselves.
   * @returns the same tokens if they spell no mark.
   */
  broken(tokens: readonly number[], from = 0): readonly number[] {
    // A mark that begins earlier may end after `from`.
    const first = Math.max(0, from - this.#longest)
    // The inserted space may itself complete a mark.
    for (let given = tokens; ; ) {
      const better = this.#pass(given, first)
      if (better.length === given.length) return given
      given = better
    }
  }

  #pass(tokens: readonly number[], first: number): readonly number[] {
    const broken = tokens.slice(0, first)
    for (let index = first; index < tokens.length; index++) {
      const token = tokens[index]!
      const text = this.#mayBegin(token) ? this.#text(token) : ''
      const found = this.#markAt(text, tokens, index)
      if (found === null) broken.push(token)
      else if (found.end > text.length) broken.push(token, this.#bytes[SPACE]!)
      else {
        // The token contains the whole mark.
        for (const [at, letter] of [...text].entries()) {
          broken.push(this.#bytes[letter.charCodeAt(0)]!)
          if (at === found.start) broken.push(this.#bytes[SPACE]!)
        }
      }
    }
    return broken
  }

  #mayBegin(token: number): boolean {
    if (this.#begins[token] === 0) {
      this.#begins[token] = [...this.#text(token)].some((letter) => this.#marks.has(letter)) ? MAYBE : NEVER
    }
    return this.#begins[token] !== NEVER
  }

  /** The first mark that begins in this token, but not within a control token, which stays unchanged. */
  #markAt(
    text: string,
    tokens: readonly number[],
    index: number,
  ): { readonly start: number; readonly end: number } | null {
    const isControl = this.#control.has(tokens[index]!)
    let window: string | null = null
    for (let start = 0; start < text.length; start++) {
      const candidates = this.#marks.get(text.charAt(start))
      if (candidates === undefined) continue
      window ??= this.#window(tokens, index)
      for (const mark of candidates) {
        const end = start + mark.length
        if (window.startsWith(mark, start) && !(isControl && end <= text.length)) return { start, end }
      }
    }
    return null
  }

  /** The text of a token and of the following ones that the longest mark may reach. */
  #window(tokens: readonly number[], index: number): string {
    let text = this.#text(tokens[index]!)
    const length = text.length + this.#longest
    for (let next = index + 1; next < tokens.length && text.length < length; next++) text += this.#text(tokens[next]!)
    return text
  }

  #text(token: number): string {
    const known = this.#texts[token]
    if (known !== undefined) return known
    const { bytes, starts } = this.#vocabulary
    const text = this.#control.get(token) ?? textOf(bytes.subarray(starts[token] ?? 0, starts[token + 1] ?? 0))
    this.#texts[token] = text
    return text
  }
}

function unspaced(mark: string): string {
  return mark.replace(/^ +/, '')
}

function isBreakable(mark: string): boolean {
  return mark.length >= 2 && !mark.endsWith(' ')
}

const SPACE = 0x20
const NEVER = 1
const MAYBE = 2

/** The token of each single byte. */
function byteTokens({ bytes, starts, control }: Vocabulary): readonly number[] {
  const controls = new Set(control.values())
  const tokens: number[] = []
  for (let id = starts.length - 2; id >= 0; id--) {
    if (starts[id + 1]! - starts[id]! === 1 && !controls.has(id)) tokens[bytes[starts[id]!]!] = id
  }
  return tokens
}

function latin1(text: string): string {
  return textOf(Buffer.from(text))
}

function textOf(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1')
}
