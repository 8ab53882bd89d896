import type { PrefixKey } from '../../cache/prefix-key.ts'
import type { Step } from './step.ts'

interface Measured {
  ms: number
  tokens: number
}

/** After this many tokens, earlier measurements count half. */
const HALF_LIFE_TOKENS = 4096

/**
 * Measures the cost of prompt tokens. The scheduler has it learn from every step; the value of a copy on disk is the time
 * that it saves.
 */
export class PrefillCosts {
  readonly #text: Measured = { ms: 0, tokens: 0 }
  readonly #media: Measured = { ms: 0, tokens: 0 }

  /** @param ms duration of the step. */
  learn(step: Step, ms: number): void {
    if (step.type === 'text') {
      const rows = step.prefills.reduce((sum, { rows }) => sum + rows, 0)
      if (rows > 0) add(this.#text, (ms * rows) / step.rows, rows)
    } else add(this.#media, ms, step.promptTokens)
  }

  /** Prefill time of the cells `from` to `to` of a key, in ms. */
  of(key: PrefixKey, from: number, to: number): number {
    const media = key.mediaWithin(from, to).reduce((sum, { cells }) => sum + cells, 0)
    // The cost of media whose embeddings are cached is unknown, but no less than that of text.
    const textMs = perToken(this.#text)
    return (to - from - media) * textMs + media * Math.max(textMs, perToken(this.#media))
  }
}

function add(measured: Measured, ms: number, tokens: number): void {
  measured.ms += ms
  measured.tokens += tokens
  if (measured.tokens < 2 * HALF_LIFE_TOKENS) return
  measured.ms /= 2
  measured.tokens /= 2
}

function perToken({ ms, tokens }: Measured): number {
  return tokens === 0 ? 0 : ms / tokens
}
