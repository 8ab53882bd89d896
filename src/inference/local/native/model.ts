import { getOrMake } from '../../../lib/get-or-make.ts'
import { inBackground } from './declare.ts'
import type { Llama } from './llama.ts'
import type { Pointer, StructValue } from './structs.ts'

/** llama.cpp's vocabulary types whose tokens reproduce the text exactly. Others drop or rewrite parts of it. */
const VOCABULARY_SPM = 1
const VOCABULARY_BPE = 2
/** llama.cpp's attributes of tokens that are only parsed with `parseControl`: unknown and control. */
const CONTROL_ATTRIBUTES = (1 << 0) | (1 << 3)
/** The attribute of tokens that are parsed in any text. */
const USER_DEFINED = 1 << 4
/** The attributes of tokens that remove blanks before or after them. */
const STRIPS = (1 << 7) | (1 << 8)
/**
 * llama.cpp's names of splitters that cut text into words in a loop. Others match regular expressions recursively: a long word
 * would overflow the stack.
 */
const LOOPING_SPLITTERS: ReadonlySet<string | null> = new Set(
  'chatglm-bpe command-r glm4 gpt-2 granite-docling hunyuan kimi-k2 lfm2 llama-bpe pixtral qwen2 qwen35 smollm'.split(
    ' ',
  ),
)
/** A character that no vocabulary has: a token never joins it with what follows. */
const SEPARATOR = '\uE000'
/** Maximum bytes of a UTF-8 character. */
const LONGEST_CHARACTER = 4

/** A token that represents its text wherever the text occurs: a control token, or a mark such as `<think>`. */
export interface AddedToken {
  readonly text: string
  /** Whether it is parsed only in trusted text. */
  readonly isControl: boolean
  /** Whether it removes adjacent blanks. */
  readonly strips: boolean
}

/** The weights of a language model and its vocabulary. */
export class Model {
  readonly #llama: Llama
  readonly #vocabulary: Pointer
  readonly #pieces = new Map<number, Uint8Array>()
  /** Used by contexts and projectors, which must be closed first. */
  readonly handle: Pointer
  readonly vocabularySize: number
  /** Context length that the model was trained for, in tokens. */
  readonly trainedContextTokens: number
  /** Floats per token in a batch of embeddings. */
  readonly embeddingSize: number
  /**
   * Maximum length up to which a sequence can be truncated at any position. A longer one can only be reused whole: a recurrent
   * layer keeps its last state only, and a layer with a sliding window may lack the cells before the cut: llama.cpp gives away
   * the first cell as soon as the next token cannot attend to it.
   */
  readonly cuttablePositions: number
  /** Whether it has recurrent layers, which keep a state instead of keys and values. */
  readonly isRecurrent: boolean
  readonly chatTemplate: string | null
  readonly bosToken: string
  readonly eosToken: string
  /** The BOS token that every prompt begins with; null if the chat template decides. */
  readonly beginToken: number | null
  /** Whether tokens may span words (SentencePiece), so that adjacent texts must be tokenised together. */
  readonly readsAsOne: boolean
  /** Whether the tokeniser first splits text into words or smaller units (BPE). */
  readonly cutsAtWords: boolean
  /** Whether one call may read a word of any length. */
  readonly readsLongWords: boolean
  /** Maximum bytes of text in a token; infinite if unknown. */
  readonly longestTokenBytes: number
  readonly addedTokens: readonly AddedToken[]

  /**
   * @param printedTokens texts of control tokens whose text is part of the output.
   * @param params fields of `llama_model_params` that differ from the defaults.
   * @throws Error when the file is not a model that llama.cpp can load; its log says why.
   */
  constructor(llama: Llama, path: string, printedTokens: readonly string[] = [], params: Readonly<StructValue> = {}) {
    const handle = llama.model_load_from_file(path, { ...llama.model_default_params(), ...params })
    if (handle === null) throw new Error(`Cannot load the model ${path}.`)
    this.#llama = llama
    this.handle = handle
    this.#vocabulary = llama.model_get_vocab(handle)
    this.vocabularySize = llama.vocab_n_tokens(this.#vocabulary)
    this.trainedContextTokens = llama.model_n_ctx_train(handle)
    this.embeddingSize = llama.model_n_embd_inp(handle)
    this.isRecurrent = llama.model_is_recurrent(handle) || llama.model_is_hybrid(handle)
    const window = llama.model_n_swa(handle)
    this.cuttablePositions = this.isRecurrent ? 0 : window > 0 ? window - 1 : Number.POSITIVE_INFINITY
    this.chatTemplate = llama.model_chat_template(handle, null)
    // The library returns a default token when the file names none.
    this.bosToken = this.#has('tokenizer.ggml.bos_token_id') ? this.name(llama.vocab_bos(this.#vocabulary)) : ''
    this.eosToken = this.#has('tokenizer.ggml.eos_token_id') ? this.name(llama.vocab_eos(this.#vocabulary)) : ''
    for (const text of printedTokens) {
      const tokens = this.tokenize(text, true)
      if (tokens.length !== 1) throw new Error(`printedTokens: the model ${path} has no token '${text}'.`)
      this.#pieces.set(tokens[0]!, Buffer.from(text))
    }
    const type = llama.vocab_type(this.#vocabulary)
    this.beginToken = llama.vocab_get_add_bos(this.#vocabulary) ? llama.vocab_bos(this.#vocabulary) : null
    this.readsAsOne = type === VOCABULARY_SPM
    this.cutsAtWords = type === VOCABULARY_BPE
    this.readsLongWords = LOOPING_SPLITTERS.has(this.text('tokenizer.ggml.pre'))
    this.longestTokenBytes =
      type === VOCABULARY_BPE || type === VOCABULARY_SPM ? this.#longestPiece() : Number.POSITIVE_INFINITY
    this.addedTokens = Array.from({ length: this.vocabularySize }, (_, token) => this.#added(token)).filter(
      (token) => token !== null,
    )
  }

  /**
   * @param parseControl whether the text of a control token becomes that token.
   * @param isWhole whether the tokens that begin and end a text are added.
   */
  tokenize(text: string, parseControl: boolean, isWhole = false): Int32Array {
    const bytes = Buffer.from(text)
    let tokens = new Int32Array(bytes.length + 1)
    let count = this.#tokenizeInto(tokens, bytes, parseControl, isWhole)
    if (count < 0) {
      tokens = new Int32Array(-count)
      count = this.#tokenizeInto(tokens, bytes, parseControl, isWhole)
    }
    if (count < 0) throw new Error(`Cannot tokenise a text of ${bytes.length} bytes.`)
    return tokens.slice(0, count)
  }

  /** The same for a text that follows another one: without a leading space from the tokeniser. */
  tokenizeContinuation(text: string, parseControl: boolean): Int32Array {
    const head = this.tokenize(SEPARATOR, false)
    return this.tokenize(SEPARATOR + text, parseControl).subarray(head.length)
  }

  async tokenizeContinuationInBackground(text: string, parseControl: boolean): Promise<Int32Array> {
    const head = this.tokenize(SEPARATOR, false)
    return (await this.tokenizeInBackground(SEPARATOR + text, parseControl)).subarray(head.length)
  }

  /** Whether the token is a control token, which only trusted text may contain. */
  isControl(token: number): boolean {
    return (this.#llama.vocab_get_attr(this.#vocabulary, token) & CONTROL_ATTRIBUTES) !== 0
  }

  /** Whether the token is a user-defined one such as `<think>`, which any text may contain; false for white space. */
  isMark(token: number): boolean {
    const isDefined = (this.#llama.vocab_get_attr(this.#vocabulary, token) & USER_DEFINED) !== 0
    return isDefined && Buffer.from(this.piece(token)).toString().trim() !== ''
  }

  /** `tokenize` on another thread, for slices of texts; `Texts` takes long ones. The library is thread-safe here. */
  async tokenizeInBackground(text: string, parseControl: boolean, isWhole = false): Promise<Int32Array> {
    const bytes = Buffer.from(text)
    const tokens = new Int32Array(bytes.length + 1)
    const tokenize = inBackground(this.#llama.tokenize)
    const count = await tokenize(this.#vocabulary, bytes, bytes.length, tokens, tokens.length, isWhole, parseControl)
    return count < 0 ? this.tokenize(text, parseControl, isWhole) : tokens.slice(0, count)
  }

  /** The bytes of a token's text: none for control tokens, and not always whole characters. */
  piece(token: number): Uint8Array {
    return getOrMake(this.#pieces, token, () => this.#readPiece(token))
  }

  /** The token's text in the vocabulary; for a control token, as a chat template writes it. Empty for no token. */
  name(token: number): string {
    return token < 0 ? '' : this.#llama.vocab_get_text(this.#vocabulary, token)
  }

  /** A text of the header; null where it has none of the name, or a very long one. */
  text(key: string): string | null {
    const value = new Uint8Array(64)
    const length = this.#llama.model_meta_val_str(this.handle, key, value, value.length)
    return length < 0 || length >= value.length ? null : Buffer.from(value.subarray(0, length)).toString()
  }

  /** The template for a query and a document; null for a model that takes them one after the other. */
  get rankTemplate(): string | null {
    return this.#llama.model_chat_template(this.handle, 'rerank')
  }

  /** Tokens around a query and a document, as llama-server sets them. */
  get rankMarks(): Readonly<Record<'before' | 'between' | 'after', readonly number[]>> {
    const llama = this.#llama
    const vocabulary = this.#vocabulary
    const sep = llama.vocab_sep(vocabulary)
    const eos = llama.vocab_eos(vocabulary)
    const end = llama.vocab_get_add_eos(vocabulary) ? [eos < 0 ? sep : eos] : []
    return {
      before: this.beginToken === null ? [] : [this.beginToken],
      between: [...end, ...(llama.vocab_get_add_sep(vocabulary) ? [sep] : [])],
      after: end,
    }
  }

  isEndOfGeneration(token: number): boolean {
    return this.#llama.vocab_is_eog(this.#vocabulary, token)
  }

  close(): void {
    this.#llama.model_free(this.handle)
  }

  #tokenizeInto(tokens: Int32Array, bytes: Uint8Array, parseControl: boolean, isWhole: boolean): number {
    return this.#llama.tokenize(this.#vocabulary, bytes, bytes.length, tokens, tokens.length, isWhole, parseControl)
  }

  #added(token: number): AddedToken | null {
    const attributes = this.#llama.vocab_get_attr(this.#vocabulary, token)
    if ((attributes & (CONTROL_ATTRIBUTES | USER_DEFINED)) === 0) return null
    const isControl = (attributes & CONTROL_ATTRIBUTES) !== 0
    return { text: this.name(token), isControl, strips: (attributes & STRIPS) !== 0 }
  }

  #longestPiece(): number {
    // The token for unknown text represents one character.
    let longest = LONGEST_CHARACTER
    for (let token = 0; token < this.vocabularySize; token++) longest = Math.max(longest, this.piece(token).length)
    return longest
  }

  #readPiece(token: number): Uint8Array {
    let buffer = new Uint8Array(64)
    let length = this.#llama.token_to_piece(this.#vocabulary, token, buffer, buffer.length, 0, false)
    if (length < 0) {
      buffer = new Uint8Array(-length)
      length = this.#llama.token_to_piece(this.#vocabulary, token, buffer, buffer.length, 0, false)
    }
    return buffer.slice(0, length)
  }

  #has(key: string): boolean {
    const value = new Uint8Array(32)
    return this.#llama.model_meta_val_str(this.handle, key, value, value.length) >= 0
  }
}
