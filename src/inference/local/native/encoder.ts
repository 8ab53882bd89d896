import { inBackground } from './declare.ts'
import type { Model } from './model.ts'
import type { Mtmd } from './mtmd.ts'
import type { Pointer, StructValue } from './structs.ts'

/** Return codes of `encoder.cpp`. */
const PAUSED = -1000
const NOT_FINITE = -1001

/** Maximum free result buffers that are kept for reuse: new memory is slow, see `DEVICE_ENVIRONMENT`. */
const MOST_FREE = 4

/** A paused chunk and the buffer for its result. */
interface Paused {
  readonly chunk: Pointer
  readonly output: Float32Array
}

/**
 * Runs the encoders of a projector, one chunk at a time. On the CPU they can be paused, so that other steps run while a large
 * image is encoded.
 */
export class Encoder {
  /** Free result buffers. */
  readonly #free: Float32Array[] = []
  /** Calls on other threads. */
  readonly #aside = new Set<Promise<number>>()
  readonly #mtmd: Mtmd
  readonly #handle: Pointer
  /** The library's context. */
  readonly context: Pointer
  #paused: Paused | null = null

  /**
   * @param canPause false if they run on a device.
   * @throws Error if the file is not a projector of this model; the library's log says why.
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
   * Starts to encode a chunk, or resumes it; abandons another one that is paused. Blocks.
   * @param ms after which it pauses, if it can.
   * @param floats size of the result.
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

  /** Encodes a whole chunk on another thread, for encoders on a device. Calls run one after another. @throws Error as `run` does. */
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

  /** Returns a result's buffer for reuse. */
  recycle(output: Float32Array): void {
    if (this.#free.push(output) > MOST_FREE) this.#free.shift()
  }

  #take(floats: number): Float32Array {
    const at = this.#free.findIndex(({ length }) => length === floats)
    if (at !== -1) return this.#free.splice(at, 1)[0]!
    // The encoder overwrites it: zeroing 33 MB would take 3 ms.
    return new Float32Array(Buffer.allocUnsafeSlow(floats * Float32Array.BYTES_PER_ELEMENT).buffer)
  }

  /** Abandons a chunk if it is paused. Its buffer is no longer used. */
  abandon(chunk: Pointer): void {
    if (this.#paused?.chunk !== chunk) return
    this.#paused = null
    this.#mtmd.encoder_cancel(this.#handle)
  }

  /** Waits for calls on other threads, and closes. Without any, it closes at once. */
  async close(): Promise<void> {
    if (this.#aside.size > 0) await Promise.allSettled(this.#aside)
    this.#mtmd.encoder_free(this.#handle)
  }
}

function check(code: number): void {
  if (code === NOT_FINITE) throw new Error('The encoder returned values that are not finite numbers.')
  if (code !== 0) throw new Error(`mtmd_encode_chunk failed with code ${code}.`)
}
