import koffi from 'koffi'
import type { Model } from './model.ts'
import type { Mtmd } from './mtmd.ts'
import type { Pointer, StructValue } from './structs.ts'

/** `PAUSED` of `encoder.cpp`. */
const PAUSED = -1000

/**
 * Runs the encoders of a projector, one chunk at a time. Where they run on the CPU, they can be paused, so that other steps
 * get their turns while a large picture is encoded.
 */
export class Encoder {
  readonly #mtmd: Mtmd
  readonly #handle: Pointer
  /** The library's context. */
  readonly context: Pointer
  /** What is paused. */
  #paused: Pointer | null = null

  /**
   * @param canPause false where they run on a device.
   * @throws Error when the file is not a projector of this model; the library's log says why.
   */
  constructor(mtmd: Mtmd, path: string, model: Model, params: StructValue, canPause: boolean) {
    const handle = mtmd.encoder_new()
    if (handle === null) throw new Error('There is no memory for an encoder.')
    const context = mtmd.encoder_load(handle, path, model.handle, params, canPause)
    if (context === null) {
      mtmd.encoder_free(handle)
      throw new Error(`Cannot load the projector ${path} for this model.`)
    }
    this.#mtmd = mtmd
    this.#handle = handle
    this.context = context
  }

  /**
   * Begins to encode a chunk, or goes on with it; another one that is paused is given up. Blocks.
   * @param ms after which it pauses, if it can.
   * @param floats of the result.
   * @returns a copy of the result; null while it is paused.
   */
  run(chunk: Pointer, ms: number, floats: number): Float32Array | null {
    this.#paused = null
    const code = this.#mtmd.encoder_run(this.#handle, chunk, ms)
    if (code === PAUSED) {
      this.#paused = chunk
      return null
    }
    if (code !== 0) throw new Error(`mtmd_encode_chunk failed with code ${code}.`)
    return Float32Array.from(new Float32Array(koffi.view(this.#mtmd.get_output_embd(this.context), 4 * floats)))
  }

  /** Gives a chunk up, if it is paused. Its memory is no longer used. */
  abandon(chunk: Pointer): void {
    if (this.#paused !== chunk) return
    this.#paused = null
    this.#mtmd.encoder_cancel(this.#handle)
  }

  close(): void {
    this.#mtmd.encoder_free(this.#handle)
  }
}
