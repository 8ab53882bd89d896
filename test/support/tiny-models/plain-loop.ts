import { join } from 'node:path'
import koffi from 'koffi'
import type { PromptPart } from '../../../src/inference/contract/parts.ts'
import type { NativeLibraries } from '../../../src/inference/local/native/libraries.ts'
import type { Mtmd } from '../../../src/inference/local/native/mtmd.ts'
import type { NativeInputPart, Pointer } from '../../../src/inference/local/native/structs.ts'
import type { LocalModelCard } from '../../../src/models/card.ts'
import { bindPlainMtmd, type PlainMtmd } from './plain-mtmd.ts'

const CHUNK_TEXT = 0
const ROWS = 1024
/** These models have encoders. */
type Libraries = NativeLibraries & { readonly mtmd: Mtmd & PlainMtmd }

/** More threads would wait for each other longer than such models compute. */
const THREADS = 1

export interface PlainStep {
  readonly token: number
  readonly logits: Float32Array
}

/**
 * Greedy replies in the way of llama.cpp's own programs: a prompt is read as one text around its images, with the token
 * that begins a text, in one sequence, and nothing is reused. It shares only the bindings with the engine.
 */
export class PlainLoop implements Disposable {
  readonly #libraries: Libraries
  readonly #model: Pointer
  readonly #vocabulary: Pointer
  readonly #context: Pointer
  readonly #encoder: Pointer
  readonly #batch: ReturnType<NativeLibraries['llama']['batch_init']>
  #position = 0

  constructor(libraries: NativeLibraries, { directory, engine, image }: LocalModelCard) {
    const { llama } = libraries
    const mtmd = { ...libraries.mtmd!, ...bindPlainMtmd() }
    this.#libraries = { ...libraries, mtmd }
    const threads = { n_threads: THREADS }
    this.#model = opened(llama.model_load_from_file(join(directory, engine.model), llama.model_default_params()))
    this.#vocabulary = llama.model_get_vocab(this.#model)
    const size = { n_ctx: 2 * ROWS, n_batch: ROWS, n_ubatch: ROWS, n_threads_batch: THREADS }
    this.#context = opened(
      llama.init_from_model(this.#model, { ...llama.context_default_params(), ...size, ...threads }),
    )
    this.#encoder = opened(
      mtmd.init_from_file(join(directory, engine.projector!), this.#model, {
        ...mtmd.context_params_default(),
        ...threads,
        print_timings: false,
        warmup: false,
        ...(image === undefined || image.tiles
          ? {}
          : { image_min_tokens: image.minTokens, image_max_tokens: image.maxTokens }),
      }),
    )
    this.#batch = llama.batch_init(ROWS, 0, 1)
    new Int32Array(koffi.view(this.#batch.n_seq_id, 4 * ROWS)).fill(1)
    for (let row = 0; row < ROWS; row++) {
      new Int32Array(koffi.view(koffi.decode(this.#batch.seq_id, 8 * row, 'void *'), 4))[0] = 0
    }
  }

  reply(prompt: readonly PromptPart[], tokens: number): string {
    const { llama } = this.#libraries
    const pieces: Uint8Array[] = []
    for (const { token } of this.steps(prompt, tokens)) {
      const piece = new Uint8Array(64)
      pieces.push(piece.slice(0, llama.token_to_piece(this.#vocabulary, token, piece, piece.length, 0, false)))
    }
    return Buffer.concat(pieces).toString()
  }

  /**
   * The likeliest tokens, each with the logits that it was chosen by.
   * @param given tokens that the reply has in place of the likeliest ones.
   */
  *steps(prompt: readonly PromptPart[], tokens: number, given: readonly number[] = []): Generator<PlainStep> {
    const { llama } = this.#libraries
    llama.memory_clear(llama.get_memory(this.#context)!, false)
    this.#position = 0
    this.#decodePrompt(prompt)
    const bytes = 4 * llama.vocab_n_tokens(this.#vocabulary)
    for (let step = 0; step < tokens; step++) {
      const logits = new Float32Array(koffi.view(llama.get_logits_ith(this.#context, -1)!, bytes)).slice()
      const token = logits.indexOf(logits.reduce((a, b) => Math.max(a, b)))
      yield { token, logits }
      this.#decodeText(Int32Array.of(given[step] ?? token))
    }
  }

  [Symbol.dispose](): void {
    const { llama, mtmd } = this.#libraries
    llama.batch_free(this.#batch)
    mtmd.free(this.#encoder)
    llama.free(this.#context)
    llama.model_free(this.#model)
  }

  #decodePrompt(prompt: readonly PromptPart[]): void {
    const { mtmd } = this.#libraries
    const parts = nativeParts(this.#libraries, prompt)
    const chunks = mtmd.input_chunks_init()
    try {
      const code = mtmd.tokenize_from_parts(this.#encoder, chunks, parts, parts.length, true)
      if (code !== 0) throw new Error(`mtmd_tokenize_from_parts failed with code ${code}.`)
      for (let index = 0; index < mtmd.input_chunks_size(chunks); index++) {
        const chunk = mtmd.input_chunks_get(chunks, index)
        if (mtmd.input_chunk_get_type(chunk) !== CHUNK_TEXT) this.#decodeImage(chunk)
        else {
          const count: [number] = [0]
          const address = mtmd.input_chunk_get_tokens_text(chunk, count)
          this.#decodeText(Int32Array.from(new Int32Array(koffi.view(address, 4 * count[0]))))
        }
      }
    } finally {
      for (const { bitmap } of parts) if (bitmap !== null) mtmd.bitmap_free(bitmap)
      mtmd.input_chunks_free(chunks)
    }
  }

  #decodeText(tokens: Int32Array): void {
    new Int32Array(koffi.view(this.#batch.token!, 4 * ROWS)).set(tokens)
    const positions = tokens.map((_, i) => this.#position + i)
    new Int32Array(koffi.view(this.#batch.pos as Pointer, 4 * ROWS)).set(positions)
    this.#decode({}, tokens.length)
    this.#position += tokens.length
  }

  #decodeImage(chunk: Pointer): void {
    const { llama, mtmd } = this.#libraries
    const code = mtmd.encode_chunk(this.#encoder, chunk)
    if (code !== 0) throw new Error(`mtmd_encode_chunk failed with code ${code}.`)
    const count = mtmd.input_chunk_get_n_tokens(chunk)
    const bytes = 4 * count * llama.model_n_embd_inp(this.#model)
    const embd = Float32Array.from(new Float32Array(koffi.view(mtmd.get_output_embd(this.#encoder), bytes)))
    const image = mtmd.input_chunk_get_tokens_image(chunk)
    const places = Array.from({ length: count }, (_, i) => mtmd.image_tokens_get_decoder_pos(image, this.#position, i))
    const planes = mtmd.decode_use_mrope(this.#encoder)
      ? [places.map(({ t }) => t), places.map(({ y }) => y), places.map(({ x }) => x), places.map(({ z }) => z)]
      : [places.map(({ t }) => t)]
    const isCausal = !mtmd.decode_use_non_causal(this.#encoder, chunk)
    if (!isCausal) llama.set_causal_attn(this.#context, false)
    this.#decode({ token: null, embd, pos: Int32Array.from(planes.flat()) }, count)
    if (!isCausal) llama.set_causal_attn(this.#context, true)
    this.#position += mtmd.input_chunk_get_n_pos(chunk)
  }

  /** Decodes rows of the batch. Only the last one yields logits. */
  #decode(fields: object, rows: number): void {
    const { llama } = this.#libraries
    const outputs = new Int8Array(koffi.view(this.#batch.logits, ROWS))
    outputs.fill(0)
    outputs[rows - 1] = 1
    const code = llama.decode(this.#context, { ...this.#batch, n_tokens: rows, ...fields })
    if (code !== 0) throw new Error(`llama_decode failed with code ${code}.`)
  }
}

/** Texts that follow each other become one. All of it counts as trusted. */
function nativeParts({ mtmd }: Libraries, prompt: readonly PromptPart[]): NativeInputPart[] {
  const parts: NativeInputPart[] = []
  let text = ''
  const close = () => {
    const bytes = Buffer.from(text)
    if (bytes.length === 0) return
    parts.push({ text: { text: bytes, text_len: bytes.length, add_special: false, parse_special: true }, bitmap: null })
    text = ''
  }
  for (const part of prompt) {
    if (part.type === 'text') text += part.text
    else if (part.type !== 'image') throw new Error('Only text and images are supported.')
    else {
      close()
      const { width, height, data } = part.image
      parts.push({ text: null, bitmap: mtmd.bitmap_init(width, height, data) })
    }
  }
  close()
  return parts
}

function opened(pointer: Pointer | null): Pointer {
  if (pointer === null) throw new Error('The library cannot open the model.')
  return pointer
}
