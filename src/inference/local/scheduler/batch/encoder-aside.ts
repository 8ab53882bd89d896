import type { Prefill } from './step.ts'

/**
 * Has encoders on a device run beside the steps, on another thread and in another stream of the device: one piece of media
 * at a time. A picture of 1,024 tokens takes 60 ms, and next tokens need not wait for it.
 */
export class EncoderAside {
  readonly #ended: () => void
  #isBusy = false

  /** @param ended called after each piece. */
  constructor(ended: () => void) {
    this.#ended = ended
  }

  get isBusy(): boolean {
    return this.#isBusy
  }

  /** Begins with the media of the prompt that has waited longest, unless it is busy. */
  begin(prefills: readonly Prefill[], step: number): void {
    if (this.#isBusy) return
    let next: Prefill | null = null
    for (const prefill of prefills) {
      if (prefill.cursor.toEncode === null) continue
      if (next === null || prefill.cursor.lastMediaStep < next.cursor.lastMediaStep) next = prefill
    }
    if (next !== null) void this.#encode(next, step)
  }

  async #encode({ cursor, group }: Prefill, step: number): Promise<void> {
    this.#isBusy = true
    const started = performance.now()
    try {
      await cursor.encodeAside(step)
      group.report?.({ type: 'encoded', ms: performance.now() - started })
    } catch {
      // The cursor tells it when it is asked to encode.
    }
    this.#isBusy = false
    this.#ended()
  }
}
