import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Tokenizer } from '@huggingface/tokenizers'
import { getOrMake } from '../../../lib/get-or-make.ts'

/** A text of a prompt. Control tokens are parsed in trusted text only. */
export interface PromptText {
  readonly text: string
  readonly trusted: boolean
}

/** The vocabulary of a tokenizer: the texts that its tokens print. */
export interface Vocabulary {
  /**
   * The bytes of all tokens, concatenated, and the start of each token's bytes; the last entry is the end of the last
   * token.
   */
  readonly bytes: Uint8Array
  readonly starts: Int32Array
  /** Tokens that print nothing, unless a card lists them as printed. */
  readonly control: ReadonlyMap<string, number>
  /** Tokens such as `<think>`, which any text with their spelling becomes. */
  readonly words: ReadonlyMap<string, number>
  /** The token that every prompt begins with; null for none. */
  readonly beginToken: number | null
}

interface AddedToken {
  readonly id: number
  readonly content: string
  readonly special?: boolean
  readonly lstrip?: boolean
  readonly rstrip?: boolean
}

interface TokenizerFile {
  readonly added_tokens?: readonly AddedToken[]
  readonly model?: { readonly vocab?: unknown }
  readonly decoder?: unknown
  readonly pre_tokenizer?: unknown
}

/**
 * The tokenizer of a Hugging Face folder. It separates trusted from untrusted text, so that a client's text never
 * becomes a control token. Consecutive texts are tokenised as one, as in training, except if a cut between them splits
 * a word of the vocabulary such as `<think>`, which is then ordinary text.
 */
export class HubTokenizer {
  readonly vocabulary: Vocabulary
  /** Has no control tokens. */
  readonly #plain: Tokenizer
  readonly #controls: ReadonlyMap<string, AddedToken>
  readonly #marks: RegExp | null
  readonly #words: CutWords

  /** @throws Error if the folder has no usable tokenizer. */
  constructor(folder: string) {
    const file = JSON.parse(readFileSync(join(folder, 'tokenizer.json'), 'utf8')) as TokenizerFile
    const settings = readSettings(folder)
    const added = file.added_tokens ?? []
    const controls = added.filter(({ special }) => special)
    this.#controls = new Map(controls.map((token) => [token.content, token]))
    const words = added.filter(({ special }) => !special)
    this.#plain = new Tokenizer({ ...file, added_tokens: words }, settings)
    this.#words = new CutWords(words.map(({ content }) => content))
    this.#marks = alternatives([...this.#controls.keys()])
    const [begin] = new Tokenizer(file, settings).encode('', { add_special_tokens: true }).ids
    const isControl = controls.some(({ id }) => id === begin)
    this.vocabulary = {
      ...pieces(file, added),
      control: new Map(controls.map(({ content, id }) => [content, id])),
      words: new Map(words.map(({ content, id }) => [content, id])),
      beginToken: begin !== undefined && isControl ? begin : null,
    }
  }

  /** The tokens of consecutive texts. */
  encode(texts: readonly PromptText[]): Int32Array {
    const tokens: number[] = []
    let plain = ''
    let tail = ''
    let strips = false
    const flush = () => {
      // Not spread: a call can take some ten thousand arguments.
      if (plain !== '') for (const id of this.#plain.encode(plain, { add_special_tokens: false }).ids) tokens.push(id)
      plain = ''
      tail = ''
    }
    const write = (text: string) => {
      const written = strips ? text.trimStart() : text
      if (text !== '') strips = false
      if (this.#words.isCut(tail, written)) flush()
      plain += written
      tail = this.#words.tailOf(tail + written)
    }
    for (const { text, trusted } of texts) {
      let at = 0
      for (const match of trusted && this.#marks !== null ? text.matchAll(this.#marks) : []) {
        const control = this.#controls.get(match[0])!
        write(text.slice(at, match.index))
        if (control.lstrip) plain = plain.trimEnd()
        flush()
        tokens.push(control.id)
        strips = control.rstrip === true
        at = match.index + match[0].length
      }
      write(text.slice(at))
    }
    flush()
    return Int32Array.from(tokens)
  }
}

/** Finds words that two texts would form together. */
class CutWords {
  /** The possible ends of words, by their beginnings. */
  readonly #ends = new Map<string, string[]>()
  readonly #longest: number

  constructor(words: readonly string[]) {
    for (const word of words) {
      for (let at = 1; at < word.length; at++) {
        getOrMake<string, string[]>(this.#ends, word.slice(0, at), () => []).push(word.slice(at))
      }
    }
    this.#longest = words.reduce((longest, { length }) => Math.max(longest, length), 1)
  }

  /** The end of a text that could be the beginning of a word. */
  tailOf(text: string): string {
    return this.#longest > 1 ? text.slice(1 - this.#longest) : ''
  }

  /** Whether a word begins in the first text, given by its tail, and ends in the second. */
  isCut(tail: string, text: string): boolean {
    for (let at = 0; at < tail.length; at++) {
      if (this.#ends.get(tail.slice(at))?.some((end) => text.startsWith(end))) return true
    }
    return false
  }
}

function readSettings(folder: string): object {
  try {
    return JSON.parse(readFileSync(join(folder, 'tokenizer_config.json'), 'utf8'))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return {}
    throw error
  }
}

/** Matches the leftmost mark, and the longest one at that place. */
function alternatives(marks: readonly string[]): RegExp | null {
  if (marks.length === 0) return null
  const escaped = [...marks]
    .sort((a, b) => b.length - a.length)
    .map((mark) => mark.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&'))
  return new RegExp(escaped.join('|'), 'gu')
}

const BLANK = '\u2581'
const BYTE_TOKEN = /^<0x([0-9A-F]{2})>$/

/** The bytes of each token. Vocabularies encode bytes as letters, or blanks as `▁`. */
function pieces(file: TokenizerFile, added: readonly AddedToken[]): Pick<Vocabulary, 'bytes' | 'starts'> {
  const isByteLevel = /"type":\s*"ByteLevel"/.test(JSON.stringify([file.decoder ?? null, file.pre_tokenizer ?? null]))
  const byId: Uint8Array[] = []
  for (const [token, id] of entries(file.model?.vocab))
    byId[id] = isByteLevel ? bytesOfLetters(token) : bytesOfText(token)
  for (const { id, content, special } of added) byId[id] = special ? new Uint8Array() : Buffer.from(content)
  const starts = new Int32Array(byId.length + 1)
  for (let id = 0; id < byId.length; id++) starts[id + 1] = starts[id]! + (byId[id]?.length ?? 0)
  const bytes = new Uint8Array(starts.at(-1)!)
  for (let id = 0; id < byId.length; id++) if (byId[id] !== undefined) bytes.set(byId[id]!, starts[id]!)
  return { bytes, starts }
}

function* entries(vocabulary: unknown): Generator<readonly [string, number]> {
  if (Array.isArray(vocabulary)) {
    for (const [id, entry] of vocabulary.entries()) yield [String((entry as readonly unknown[])[0]), id]
  } else yield* Object.entries((vocabulary ?? {}) as Readonly<Record<string, number>>)
}

function bytesOfText(token: string): Uint8Array {
  const byte = BYTE_TOKEN.exec(token)?.[1]
  return byte === undefined ? Buffer.from(token.replaceAll(BLANK, ' ')) : Uint8Array.of(Number.parseInt(byte, 16))
}

/** GPT-2 encodes each byte as a letter: as itself if printable, otherwise as one from U+0100 on. */
const LETTERS = byteLetters()

function byteLetters(): ReadonlyMap<string, number> {
  const letters = new Map<string, number>()
  let hidden = 0
  for (let byte = 0; byte < 256; byte++) {
    const isVisible = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae
    letters.set(String.fromCodePoint(isVisible ? byte : 0x100 + hidden++), byte)
  }
  return letters
}

function bytesOfLetters(token: string): Uint8Array {
  const bytes: number[] = []
  for (const letter of token) {
    const byte = LETTERS.get(letter)
    if (byte === undefined) bytes.push(...Buffer.from(letter))
    else bytes.push(byte)
  }
  return Uint8Array.from(bytes)
}
