import type { PrefixKey } from '../../cache/prefix-key.ts'
import type { Step } from './step.ts'

interface Measured {
  ms: number
  tokens: number
}

/** After so many tokens, what was measured earlier counts half. */
const HALF_LIFE_TOKENS = 4096

/** Measures what prompt tokens cost. The scheduler has it learn from every step; copies on disk are worth what they spare. */
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

  /** Time that the cells of a key take, from one to another; in ms. */
  of(key: PrefixKey, from: number, to: number): number {
    const media = key.mediaWithin(from, to).reduce((sum, { cells }) => sum + cells, 0)
    // Nothing is known of media whose embeddings are cached, but that they cost no less than text.
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
