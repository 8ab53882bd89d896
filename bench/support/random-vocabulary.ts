import { isUtf8 } from 'node:buffer'
import { GgufArray, type GgufValue } from '../../src/models/read/gguf-value.ts'
import { type GgufFile, int32s, readGguf, string, strings } from '../../test/support/gguf-writer.ts'
import { CHAT_ML_TEMPLATE } from '../../test/support/tiny-models/tiny-model.ts'
import type { Vocabulary } from '../../test/support/tiny-models/vocabulary.ts'

const NORMAL_TOKEN = 1
export const CONTROL_TOKEN = 3
const UNUSED_TOKEN = 5
/** A token of text in Qwen2's vocabulary that llama.cpp takes for the end of a reply, because of its name. */
const END = '</s>'

/** The byte of each character in GPT-2's vocabularies: printable bytes stand for themselves, others start at 256. */
const BYTE_OF = new Map(
  ((printable) => [
    ...printable.map((byte) => [byte, byte] as const),
    ...[...Array(256).keys()]
      .filter((byte) => !printable.includes(byte))
      .map((byte, index) => [256 + index, byte] as const),
  ])([...Array(256).keys()].filter((byte) => (byte > 32 && byte < 127) || (byte > 160 && byte !== 173))),
)
const byteOf = (character: string): number => BYTE_OF.get(character.codePointAt(0)!) ?? 0

export interface VocabularyChanges {
  /** Tokens in all: unused ones are added. */
  readonly size?: number
  /** Control tokens that take the place of others, by their number. */
  readonly control?: Readonly<Record<number, string>>
}

/**
 * A vocabulary of GPT-2's kind from a file, with a short chat template. Its words are tokens of text, less those of
 * partial characters, for which llama-server sometimes returns an error.
 */
export async function readVocabulary(path: string, { size, control = {} }: VocabularyChanges): Promise<Vocabulary> {
  const { metadata } = await readGguf(path)
  const tokens = arrayOf(metadata, 'tokenizer.ggml.tokens').map(String)
  const types = arrayOf(metadata, 'tokenizer.ggml.token_type').map(Number)
  for (const [token, text] of Object.entries(control)) {
    tokens[Number(token)] = text
    types[Number(token)] = CONTROL_TOKEN
  }
  while (size !== undefined && tokens.length < size) types[tokens.push(`<unused${tokens.length}>`) - 1] = UNUSED_TOKEN
  const isWord = (token: number) =>
    types[token] === NORMAL_TOKEN && tokens[token] !== END && isUtf8(Buffer.from([...tokens[token]!].map(byteOf)))
  return {
    metadata: new Map([
      ...[...metadata].filter(([key]) => key.startsWith('tokenizer.ggml.')),
      ['tokenizer.ggml.tokens', strings(tokens)],
      ['tokenizer.ggml.token_type', int32s(types)],
      ['tokenizer.chat_template', string(CHAT_ML_TEMPLATE)],
    ]),
    size: tokens.length,
    words: new Set([...tokens.keys()].filter(isWord)),
  }
}

export function arrayOf(metadata: GgufFile['metadata'], key: string): GgufValue[] {
  const value = metadata.get(key)?.value
  if (!(value instanceof GgufArray)) throw new Error(`The file has no array ${key}`)
  return [...value]
}
