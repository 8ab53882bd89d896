import { inBackground } from './declare.ts'
import type { Model } from './model.ts'
import type { Mtmd } from './mtmd.ts'
import type { Pointer, StructValue } from './structs.ts'

/** Those of `encoder.cpp`. */
const PAUSED = -1000
const NOT_FINITE = -1001

/** Results of images of one size whose memory is kept for others: new memory is slow, see `DEVICE_ENVIRONMENT`. */
const MOST_FREE = 4

/** A chunk that is paused, and where its result will go. */
interface Paused {
  readonly chunk: Pointer
  readonly output: Float32Array
}

/**
 * Runs the encoders of a projector, one chunk at a time. Where they run on the CPU, they can be paused, so that other steps
 * get their turns while a large picture is encoded.
 */
export class Encoder {
  /** Memory of results that are no longer used. */
  readonly #free: Float32Array[] = []
  /** Calls on other threads. */
  readonly #aside = new Set<Promise<number>>()
  readonly #mtmd: Mtmd
  readonly #handle: Pointer
  /** The library's context. */
  readonly context: Pointer
  #paused: Paused | null = null

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
   * @returns the result; null while it is paused.
   * @throws Error for values that are not finite numbers: they would make every later token meaningless.
   */
  run(chunk: Pointer, ms: number, floats: number): Float32Array | null {
    const output = this.#paused?.chunk === chunk ? this.#paused.output : this.#take(floats)
    this.#paused = null
    const code = this.#mtmd.encoder_run(this.#handle, chunk, ms, output, floats)
    if (code === PAUSED) {
      this.#paused = { chunk, output }
      return null
    }
    check(code)
    return output
  }

  /** Encodes all of a chunk on another thread, for encoders on a device. One after the other. @throws Error as `run` does. */
  async runAside(chunk: Pointer, floats: number): Promise<Float32Array> {
    const output = this.#take(floats)
    const call = inBackground(this.#mtmd.encoder_run)(this.#handle, chunk, Number.POSITIVE_INFINITY, output, floats)
    this.#aside.add(call)
    try {
      check(await call)
    } finally {
      this.#aside.delete(call)
    }
    return output
  }

  /** The memory of a result may be used for others. */
  recycle(output: Float32Array): void {
    if (this.#free.push(output) > MOST_FREE) this.#free.shift()
  }

  #take(floats: number): Float32Array {
    const at = this.#free.findIndex(({ length }) => length === floats)
    if (at !== -1) return this.#free.splice(at, 1)[0]!
    // The encoder writes all of it: zeros would take 3 ms for 33 MB.
    return new Float32Array(Buffer.allocUnsafeSlow(floats * Float32Array.BYTES_PER_ELEMENT).buffer)
  }

  /** Gives a chunk up, if it is paused. Its memory is no longer used. */
  abandon(chunk: Pointer): void {
    if (this.#paused?.chunk !== chunk) return
    this.#paused = null
    this.#mtmd.encoder_cancel(this.#handle)
  }

  /** Waits for calls on other threads. Without any, it is closed at once. */
  async close(): Promise<void> {
    if (this.#aside.size > 0) await Promise.allSettled(this.#aside)
    this.#mtmd.encoder_free(this.#handle)
  }
}

function check(code: number): void {
  if (code === NOT_FINITE) throw new Error('The encoder returned values that are not finite numbers.')
  if (code !== 0) throw new Error(`mtmd_encode_chunk failed with code ${code}.`)
}
