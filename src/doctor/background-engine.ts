import { setTimeout as sleep } from 'node:timers/promises'
import type { CountOptions, Engine } from '../inference/contract/engine.ts'
import type { Generation } from '../inference/contract/generation.ts'
import type { Hold } from '../inference/contract/hold.ts'
import type { PromptPart } from '../inference/contract/parts.ts'
import type { Work } from '../inference/contract/work.ts'
import { ApiError } from '../lib/errors/errors.ts'
import { Unavailable } from './examination.ts'

/** If an engine is busy, loading or restarting for longer than all these attempts, the examination gives up. */
const MOST_TRIES = 30
const LONGEST_PAUSE_S = 30

/**
 * An engine for an examination while it serves clients: one work at a time, behind the work of all others. Work for
 * which the engine is too busy is retried.
 */
export class BackgroundEngine implements Engine {
  readonly #engine: Engine
  readonly #mayUse: () => boolean
  readonly #hold: Hold | undefined
  /** The latest work, which the next one waits for. */
  #last: Promise<void> = Promise.resolve()

  /** @param mayUse whether the next work may begin; if not, it throws `Unavailable`. */
  constructor(engine: Engine, mayUse: () => boolean = () => true) {
    this.#engine = engine
    this.#mayUse = mayUse
    this.#hold = engine.hold?.()
  }

  get info() {
    return this.#engine.info
  }

  get state() {
    return this.#engine.state
  }

  get offload() {
    return this.#engine.offload ?? null
  }

  get numerics() {
    return this.#engine.numerics ?? null
  }

  async generate(work: Work, signal: AbortSignal): Promise<Generation> {
    const done = await this.#turn(signal)
    try {
      const generation = await this.#patiently(
        () => this.#engine.generate({ ...work, priority: 'background' }, signal),
        signal,
      )
      return { ...generation, events: ending(generation.events, done) }
    } catch (error) {
      done()
      throw error
    }
  }

  async countTokens(parts: readonly PromptPart[], options: CountOptions): Promise<number> {
    const asked = { ...options, priority: 'background' } as const
    return this.#patiently(() => this.#engine.countTokens(parts, asked), options.signal)
  }

  measure(work: Work, signal: AbortSignal) {
    return this.#patiently(() => this.#engine.measure({ ...work, priority: 'background' }, signal), signal)
  }

  /** Releases the engine, which serves others too. */
  async close(): Promise<void> {
    this.#hold?.release()
  }

  /** Waits for earlier work. @returns a function that ends this one. */
  async #turn(signal: AbortSignal): Promise<() => void> {
    const before = this.#last
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#last = promise
    // After an abort, the events are not read to their end.
    const done = () => {
      signal.removeEventListener('abort', done)
      resolve()
    }
    signal.addEventListener('abort', done)
    await before
    return done
  }

  async #patiently<Result>(ask: () => Promise<Result>, signal: AbortSignal): Promise<Result> {
    for (let tries = 1; ; tries++) {
      signal.throwIfAborted()
      if (!this.#mayUse()) throw new Unavailable('There is no memory for the model')
      try {
        return await ask()
      } catch (error) {
        if (!(error instanceof ApiError) || error.code !== 'model_overloaded') throw error
        if (tries === MOST_TRIES) throw new Unavailable(error.message, { cause: error })
        const pause = Math.min(error.retryAfter ?? 1, LONGEST_PAUSE_S)
        await sleep(pause * 1000, undefined, { signal }).catch(() => signal.throwIfAborted())
      }
    }
  }
}

async function* ending<Event>(events: AsyncIterable<Event>, done: () => void): AsyncGenerator<Event, void, void> {
  try {
    yield* events
  } finally {
    done()
  }
}
