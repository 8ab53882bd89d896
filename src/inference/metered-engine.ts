import type { CountOptions, Engine, Generation, Measurement, PromptPart, Work } from './engine.ts'

/** Tokens that an engine has computed or taken from its caches for one request. */
export interface TokenCounts {
  readonly promptTokens: number
  readonly completionTokens: number
  /** Prompt tokens that had been computed before. */
  readonly cachedTokens: number
  /** Prompt tokens that stand for audio. */
  readonly audioTokens: number
}

/**
 * Wraps an engine for one request and counts the tokens of everything that the engine does for it. It holds the engine until
 * it is closed.
 */
export class MeteredEngine implements Engine {
  readonly #engine: Engine
  readonly #release: () => void
  readonly #generations: Generation[] = []

  constructor(engine: Engine) {
    this.#engine = engine
    this.#release = engine.hold?.() ?? (() => {})
  }

  /** The counts so far. Tokens are counted when they are computed, even if the client has left. */
  get tokens(): TokenCounts {
    const prompts = this.#generations.flatMap((generation) => generation.prompts)
    return {
      promptTokens: sum(prompts.map((prompt) => prompt.promptTokens)),
      completionTokens: sum(this.#generations.map((generation) => generation.computedTokens())),
      cachedTokens: sum(prompts.map((prompt) => Math.min(prompt.cachedTokens, prompt.promptTokens))),
      audioTokens: sum(prompts.map((prompt) => prompt.audioTokens)),
    }
  }

  get info() {
    return this.#engine.info
  }

  get state() {
    return this.#engine.state
  }

  async generate(work: Work, signal: AbortSignal): Promise<Generation> {
    const generation = await this.#engine.generate(work, signal)
    this.#generations.push(generation)
    return generation
  }

  countTokens(parts: readonly PromptPart[], options: CountOptions): Promise<number> {
    return this.#engine.countTokens(parts, options)
  }

  /** Costs nothing, so it is not counted. */
  measure(work: Work, signal: AbortSignal): Promise<Measurement> {
    return this.#engine.measure(work, signal)
  }

  /** Lets go of the engine, which serves other requests too. */
  async close(): Promise<void> {
    this.#release()
  }
}

function sum(counts: readonly number[]): number {
  return counts.reduce((total, count) => total + count, 0)
}
