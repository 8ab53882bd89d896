import { sumOf } from '../../lib/sum.ts'
import { cannotEmbed, cannotRead } from '../contract/cannot-read.ts'
import type { CountOptions, Engine } from '../contract/engine.ts'
import type { Embedding, Generation, Measurement, PromptUsage, Reading } from '../contract/generation.ts'
import type { Hold } from '../contract/hold.ts'
import type { PromptPart } from '../contract/parts.ts'
import type { EmbedWork, ReadWork, Work } from '../contract/work.ts'
import type { WorkSize, WorkTracer } from '../contract/work-trace.ts'

/** Tokens that an engine has computed for one request or taken from its caches. */
export interface TokenCounts {
  readonly promptTokens: number
  readonly completionTokens: number
  /** Prompt tokens from a cache. */
  readonly cachedTokens: number
  /** Prompt tokens of audio. */
  readonly audioTokens: number
}

/** Fields that all works of a request share. */
export type WorkTerms = Pick<Work, 'priority' | 'isTransient' | 'adapter' | 'onBegun'>

export interface MeteredEngineOptions {
  /** Absent if the request is not traced. */
  readonly tracer?: WorkTracer | undefined
  readonly terms?: WorkTerms
  /** Called whenever the engine has admitted a work. */
  readonly onAdmitted?: () => void
}

/** Wraps an engine for one request and counts the tokens of all its work. It holds the engine until it is closed. */
export class MeteredEngine implements Engine {
  readonly #engine: Engine
  readonly #hold: Hold | undefined
  readonly #tracer: WorkTracer | undefined
  readonly #terms: WorkTerms
  readonly #onAdmitted: () => void
  readonly #generations: Generation[] = []
  readonly #readings: Reading[] = []
  readonly #embeddings: Embedding[] = []

  constructor(engine: Engine, { tracer, terms = {}, onAdmitted = () => {} }: MeteredEngineOptions = {}) {
    this.#terms = terms
    this.#onAdmitted = onAdmitted
    this.#engine = engine
    this.#tracer = tracer
    this.#hold = engine.hold?.()
  }

  /** The counts so far. Tokens are counted when they are computed, even if the client has disconnected. */
  get tokens(): TokenCounts {
    const prompts = [...this.#generations, ...this.#readings, ...this.#embeddings].flatMap(
      (admitted): readonly PromptUsage[] => admitted.prompts,
    )
    return {
      promptTokens: sumOf(prompts, (prompt) => prompt.promptTokens),
      completionTokens: sumOf(this.#generations, (generation) => generation.computedTokens()),
      cachedTokens: sumOf(prompts, (prompt) => Math.min(prompt.cachedTokens, prompt.promptTokens)),
      audioTokens: sumOf(prompts, (prompt) => prompt.audioTokens),
    }
  }

  /** The fingerprint of its latest work; null if unknown, or not yet known. */
  get fingerprint(): string | null {
    const { numerics } = this.#engine
    const { adapter } = this.#terms
    const own = adapter === undefined ? numerics : numerics?.adapters?.[adapter]
    return this.#generations.at(-1)?.fingerprint?.() ?? own?.fingerprint ?? null
  }

  get info() {
    return this.#engine.info
  }

  get #asker(): Pick<Work, 'priority' | 'hold'> {
    const { priority } = this.#terms
    return { hold: this.#hold, ...(priority && { priority }) }
  }

  get state() {
    return this.#engine.state
  }

  async generate(work: Work, signal: AbortSignal): Promise<Generation> {
    const { branches } = work
    const size = { branches: branches.length, completions: sumOf(branches, ({ n }) => n) }
    return this.#admitted(work, size, this.#generations, (work) => this.#engine.generate(work, signal))
  }

  async read(work: ReadWork, signal: AbortSignal): Promise<Reading> {
    const size = { branches: work.questions.length, completions: 0 }
    return this.#admitted(work, size, this.#readings, (work) => {
      if (this.#engine.read === undefined) throw cannotRead()
      return this.#engine.read(work, signal)
    })
  }

  async embed(work: EmbedWork, signal: AbortSignal): Promise<Embedding> {
    const size = { branches: work.inputs.length, completions: 0 }
    return this.#admitted(work, size, this.#embeddings, (work) => {
      if (this.#engine.embed === undefined) throw cannotEmbed()
      return this.#engine.embed(work, signal)
    })
  }

  countTokens(parts: readonly PromptPart[], options: CountOptions): Promise<number> {
    return this.#engine.countTokens(parts, { ...options, ...this.#asker })
  }

  /** Costs nothing, so it is not counted. */
  measure(work: Work, signal: AbortSignal): Promise<Measurement> {
    return this.#engine.measure({ ...work, ...this.#asker }, signal)
  }

  async #admitted<Asked extends Work | ReadWork | EmbedWork, Admitted extends Generation | Reading | Embedding>(
    asked: Asked,
    size: WorkSize,
    counted: Admitted[],
    submit: (work: Asked) => Promise<Admitted>,
  ): Promise<Admitted> {
    const work = { ...asked, ...this.#terms, hold: this.#hold }
    const trace = this.#tracer?.begin(size)
    try {
      const admitted = await submit(trace === undefined ? work : { ...work, trace })
      trace?.admitted(admitted.prompts)
      counted.push(admitted)
      this.#onAdmitted()
      return admitted
    } catch (error) {
      trace?.ended(0, error)
      throw error
    }
  }

  /** Releases the engine, which also serves other requests. */
  async close(): Promise<void> {
    this.#hold?.release()
  }
}
