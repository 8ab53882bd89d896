import { bool, float32s, int32s, string, strings, uint32, type WrittenField } from '../gguf-writer.ts'

/** The vocabulary of a tiny model. */
export interface Vocabulary {
  /** Entries of the language model's metadata. */
  readonly metadata: ReadonlyMap<string, WrittenField>
  readonly size: number
  /**
   * Tokens that the model may generate: a space and two letters each, so that a text has one reading in tokens. They are
   * not the end of a turn, so a reply has as many tokens as are asked for.
   */
  readonly words: ReadonlySet<number>
}

export interface VocabularyOptions {
  /** Control tokens, in addition to those that end and begin a text. */
  readonly control?: readonly string[]
  /** Tokens of text that the family needs, such as line breaks. */
  readonly texts?: readonly string[]
  /** Whether the beginning of a text is marked by the tokeniser. */
  readonly addsBos: boolean
  /** The tokeniser that cuts text into words, in llama.cpp's words; for `bytePairs` only. */
  readonly pre?: string
  readonly chatTemplate: string
}

const NORMAL = 1
const UNKNOWN = 2
const CONTROL = 3
const USER_DEFINED = 4
const BYTE = 6
const LETTERS = 'abcdefghijklmnopqrstuvwxyz'
const SYLLABLES = [...'bdfgklmnprst'].flatMap((consonant) => [...'aiou'].map((vowel) => consonant + vowel))

/** A vocabulary of GPT-2's kind: bytes, and pairs that are merged. */
export function bytePairs(options: VocabularyOptions): Vocabulary {
  const { control = [], texts = [], addsBos, pre = 'qwen2', chatTemplate } = options
  const tokens = Array.from({ length: 256 }, (_, byte) => characterOf(byte))
  const merges: string[] = []
  const merge = (left: string, right: string) => {
    merges.push(`${left} ${right}`)
    return tokens.push(left + right) - 1
  }
  for (const text of texts) {
    const characters = [...Buffer.from(text)].map(characterOf)
    for (let end = 1; end < characters.length; end++) {
      if (!tokens.includes(characters.slice(0, end + 1).join('')))
        merge(characters.slice(0, end).join(''), characters[end]!)
    }
  }
  const space = characterOf(0x20)
  const words = SYLLABLES.map((syllable) => {
    merge(syllable[0]!, syllable[1]!)
    return merge(space, syllable)
  })
  const begin = tokens.push('<|begin|>', '<|end|>', ...control) - control.length - 2
  const types = tokens.map((_, token) => (token < begin ? NORMAL : CONTROL))
  const metadata = new Map<string, WrittenField>([
    ['tokenizer.ggml.model', string('gpt2')],
    ['tokenizer.ggml.pre', string(pre)],
    ['tokenizer.ggml.tokens', strings(tokens)],
    ['tokenizer.ggml.token_type', int32s(types)],
    ['tokenizer.ggml.merges', strings(merges)],
    ['tokenizer.ggml.bos_token_id', uint32(begin)],
    ['tokenizer.ggml.eos_token_id', uint32(begin + 1)],
    ['tokenizer.ggml.add_bos_token', bool(addsBos)],
    ['tokenizer.chat_template', string(chatTemplate)],
  ])
  return { metadata, size: tokens.length, words: new Set(words) }
}

/**
 * A vocabulary of SentencePiece's kind: pieces with scores, and bytes for what has no piece.
 * @param spacePrefix whether a text begins with a space of the tokeniser's own.
 * @param marks texts that are one token each wherever they stand.
 * @param merged whether pieces are put together by merges in place of scores, as Gemma 4's are.
 */
export function sentencePieces(
  options: VocabularyOptions & {
    readonly spacePrefix: boolean
    readonly merged?: boolean
    readonly marks?: readonly string[]
  },
): Vocabulary {
  const { control = [], texts = [], marks = [], addsBos, chatTemplate, spacePrefix, merged = false } = options
  const pieces: { text: string; type: number; score: number }[] = []
  const add = (text: string, type: number, score = 0) => pieces.push({ text, type, score }) - 1
  add('<unk>', UNKNOWN)
  const begin = add('<s>', CONTROL)
  const end = add('</s>', CONTROL)
  for (let byte = 0; byte < 256; byte++) add(`<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`, BYTE)
  for (const text of control) add(text, CONTROL)
  for (const text of texts) add(text, NORMAL, -1)
  for (const text of marks) add(text, USER_DEFINED)
  const words = new Set<number>()
  for (const [rank, syllable] of SYLLABLES.entries()) {
    add(syllable, NORMAL, -10 - rank)
    words.add(add(`▁${syllable}`, NORMAL, -100 - rank))
  }
  for (const character of `▁${LETTERS}${LETTERS.toUpperCase()}.,:?!`) add(character, NORMAL, -1000)
  const merges = SYLLABLES.flatMap((syllable) => [`${syllable[0]} ${syllable[1]}`, `▁ ${syllable}`])
  const metadata = new Map<string, WrittenField>([
    ['tokenizer.ggml.model', string(merged ? 'gemma4' : 'llama')],
    ['tokenizer.ggml.pre', string('default')],
    ['tokenizer.ggml.tokens', strings(pieces.map(({ text }) => text))],
    ['tokenizer.ggml.token_type', int32s(pieces.map(({ type }) => type))],
    merged
      ? ['tokenizer.ggml.merges', strings(merges)]
      : ['tokenizer.ggml.scores', float32s(pieces.map(({ score }) => score))],
    ['tokenizer.ggml.bos_token_id', uint32(begin)],
    ['tokenizer.ggml.eos_token_id', uint32(end)],
    ['tokenizer.ggml.unknown_token_id', uint32(0)],
    ['tokenizer.ggml.add_bos_token', bool(addsBos)],
    ['tokenizer.ggml.add_space_prefix', bool(spacePrefix)],
    ['tokenizer.chat_template', string(chatTemplate)],
  ])
  return { metadata, size: pieces.length, words }
}

/** The character that stands for a byte in GPT-2's vocabularies: its own where it is printable. */
function characterOf(byte: number): string {
  return String.fromCodePoint(isPrintable(byte) ? byte : 256 + UNPRINTABLE.indexOf(byte))
}

const isPrintable = (byte: number) => (byte > 32 && byte < 127) || (byte > 160 && byte !== 173)
const UNPRINTABLE = Array.from({ length: 256 }, (_, byte) => byte).filter((byte) => !isPrintable(byte))
