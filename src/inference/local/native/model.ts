import type { Llama } from './llama.ts'
import type { Pointer } from './structs.ts'

/** The weights of a language model and its vocabulary. */
export class Model {
  readonly #llama: Llama
  readonly #vocabulary: Pointer
  readonly #pieces = new Map<number, Uint8Array>()
  /** Borrowed by contexts and projectors, which must be closed before. */
  readonly handle: Pointer
  readonly vocabularySize: number
  /** Context length that the model was trained for, in tokens. */
  readonly trainedContextTokens: number
  /** Floats per token of a batch of embeddings. */
  readonly embeddingSize: number
  readonly chatTemplate: string | null
  readonly bosToken: string
  readonly eosToken: string

  /**
   * @param printedTokens control tokens that print their text.
   * @throws Error when the file is not a model that llama.cpp can load; its log says why.
   */
  constructor(llama: Llama, path: string, printedTokens: readonly string[] = []) {
    const handle = llama.model_load_from_file(path, llama.model_default_params())
    if (handle === null) throw new Error(`The model ${path} cannot be loaded.`)
    this.#llama = llama
    this.handle = handle
    this.#vocabulary = llama.model_get_vocab(handle)
    this.vocabularySize = llama.vocab_n_tokens(this.#vocabulary)
    this.trainedContextTokens = llama.model_n_ctx_train(handle)
    this.embeddingSize = llama.model_n_embd_inp(handle)
    this.chatTemplate = llama.model_chat_template(handle, null)
    // The library falls back on some token when the file names none.
    this.bosToken = this.#names('tokenizer.ggml.bos_token_id') ? this.#tokenText(llama.vocab_bos(this.#vocabulary)) : ''
    this.eosToken = this.#names('tokenizer.ggml.eos_token_id') ? this.#tokenText(llama.vocab_eos(this.#vocabulary)) : ''
    for (const text of printedTokens) {
      const tokens = this.tokenize(text, true)
      if (tokens.length !== 1) throw new Error(`The model ${path} has no token '${text}', which its card names.`)
      this.#pieces.set(tokens[0]!, Buffer.from(text))
    }
  }

  /** @param parseControl whether text that reads like a control token becomes that token. */
  tokenize(text: string, parseControl: boolean): Int32Array {
    const bytes = Buffer.from(text)
    let tokens = new Int32Array(bytes.length + 1)
    let count = this.#tokenizeInto(tokens, bytes, parseControl)
    if (count < 0) {
      tokens = new Int32Array(-count)
      count = this.#tokenizeInto(tokens, bytes, parseControl)
    }
    if (count < 0) throw new Error(`A text of ${bytes.length} bytes cannot be tokenised.`)
    return tokens.slice(0, count)
  }

  /** Bytes that a token prints: none for control tokens, and not always whole characters. */
  piece(token: number): Uint8Array {
    let piece = this.#pieces.get(token)
    if (piece === undefined) {
      piece = this.#readPiece(token)
      this.#pieces.set(token, piece)
    }
    return piece
  }

  isEndOfGeneration(token: number): boolean {
    return this.#llama.vocab_is_eog(this.#vocabulary, token)
  }

  close(): void {
    this.#llama.model_free(this.handle)
  }

  #tokenizeInto(tokens: Int32Array, bytes: Uint8Array, parseControl: boolean): number {
    return this.#llama.tokenize(this.#vocabulary, bytes, bytes.length, tokens, tokens.length, false, parseControl)
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

  #names(key: string): boolean {
    const value = new Uint8Array(32)
    return this.#llama.model_meta_val_str(this.handle, key, value, value.length) >= 0
  }

  #tokenText(token: number): string {
    return token < 0 ? '' : this.#llama.vocab_get_text(this.#vocabulary, token)
  }
}
