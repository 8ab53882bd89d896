import type { Prefill } from './step.ts'

/**
 * Runs encoders on a device beside the steps, on another thread and in another stream of the device, one media chunk at a
 * time. A picture of 1,024 tokens takes 60 ms, and decoding need not wait for it.
 */
export class EncoderAside {
  readonly #ended: () => void
  #isBusy = false

  /** @param ended called after each chunk. */
  constructor(ended: () => void) {
    this.#ended = ended
  }

  get isBusy(): boolean {
    return this.#isBusy
  }

  /** Starts to encode media of the prompt that has waited longest, unless the encoder is busy. */
  begin(prefills: readonly Prefill[], step: number): void {
    if (this.#isBusy) return
    const [next] = prefills
      .filter(({ cursor }) => cursor.toEncode !== null)
      .sort((a, b) => a.cursor.lastMediaStep - b.cursor.lastMediaStep)
    if (next !== undefined) void this.#encode(next, step)
  }

  async #encode({ cursor, group }: Prefill, step: number): Promise<void> {
    this.#isBusy = true
    const started = performance.now()
    try {
      await cursor.encodeAside(step)
      group.report?.({ type: 'encoded', ms: performance.now() - started })
    } catch {
      // The cursor throws the error when it is asked to encode.
    }
    this.#isBusy = false
    this.#ended()
  }
}
