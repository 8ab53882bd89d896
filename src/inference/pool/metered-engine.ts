import { cannotRead } from '../contract/cannot-read.ts'
import type { CountOptions, Engine } from '../contract/engine.ts'
import type { Generation, Measurement, PromptUsage, Reading } from '../contract/generation.ts'
import type { PromptPart } from '../contract/parts.ts'
import type { ReadWork, Work } from '../contract/work.ts'
import type { WorkSize, WorkTracer } from '../contract/work-trace.ts'

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
  readonly #tracer: WorkTracer | null
  readonly #isBackground: boolean
  readonly #onAdmitted: () => void
  readonly #generations: Generation[] = []
  readonly #readings: Reading[] = []

  /**
   * @param tracer null where the request is not traced.
   * @param isBackground whether all its work gives way to that of others.
   * @param onAdmitted called whenever the engine has admitted a work.
   */
  constructor(engine: Engine, tracer: WorkTracer | null = null, isBackground = false, onAdmitted = () => {}) {
    this.#isBackground = isBackground
    this.#onAdmitted = onAdmitted
    this.#engine = engine
    this.#tracer = tracer
    this.#release = engine.hold?.() ?? (() => {})
  }

  /** The counts so far. Tokens are counted when they are computed, even if the client has left. */
  get tokens(): TokenCounts {
    const prompts = [...this.#generations, ...this.#readings].flatMap(
      (admitted): readonly PromptUsage[] => admitted.prompts,
    )
    return {
      promptTokens: sum(prompts.map((prompt) => prompt.promptTokens)),
      completionTokens: sum(this.#generations.map((generation) => generation.computedTokens())),
      cachedTokens: sum(prompts.map((prompt) => Math.min(prompt.cachedTokens, prompt.promptTokens))),
      audioTokens: sum(prompts.map((prompt) => prompt.audioTokens)),
    }
  }

  /** What the numbers of its latest work depend on; null where that is not known, or not yet. */
  get fingerprint(): string | null {
    return this.#generations.at(-1)?.fingerprint?.() ?? this.#engine.numerics?.fingerprint ?? null
  }

  get info() {
    return this.#engine.info
  }

  get state() {
    return this.#engine.state
  }

  async generate(asked: Work, signal: AbortSignal): Promise<Generation> {
    const work = this.#classed(asked)
    const generation = await (this.#tracer === null
      ? this.#engine.generate(work, signal)
      : generateTraced(this.#engine, { ...work, trace: this.#tracer.begin(sizeOf(work)) }, signal))
    this.#generations.push(generation)
    this.#onAdmitted()
    return generation
  }

  async read(asked: ReadWork, signal: AbortSignal): Promise<Reading> {
    const work = this.#classed(asked)
    const trace = this.#tracer?.begin({ branches: work.questions.length, completions: 0 })
    try {
      if (this.#engine.read === undefined) throw cannotRead()
      const reading = await this.#engine.read(trace === undefined ? work : { ...work, trace }, signal)
      trace?.admitted(reading.prompts)
      this.#readings.push(reading)
      this.#onAdmitted()
      return reading
    } catch (error) {
      trace?.ended(0, error)
      throw error
    }
  }

  countTokens(parts: readonly PromptPart[], options: CountOptions): Promise<number> {
    return this.#engine.countTokens(parts, options)
  }

  /** Costs nothing, so it is not counted. */
  measure(work: Work, signal: AbortSignal): Promise<Measurement> {
    return this.#engine.measure(work, signal)
  }

  #classed<Asked extends Work | ReadWork>(work: Asked): Asked {
    return this.#isBackground ? { ...work, isBackground: true } : work
  }

  /** Lets go of the engine, which serves other requests too. */
  async close(): Promise<void> {
    this.#release()
  }
}

async function generateTraced(engine: Engine, work: Work, signal: AbortSignal): Promise<Generation> {
  try {
    const generation = await engine.generate(work, signal)
    work.trace?.admitted(generation.prompts)
    return generation
  } catch (error) {
    work.trace?.ended(0, error)
    throw error
  }
}

function sizeOf({ branches }: Work): WorkSize {
  return { branches: branches.length, completions: sum(branches.map(({ n }) => n)) }
}

function sum(counts: readonly number[]): number {
  return counts.reduce((total, count) => total + count, 0)
}
