import { setTimeout as delay } from 'node:timers/promises'
import type { Generation } from '../../inference/contract/generation.ts'
import type { Work } from '../../inference/contract/work.ts'
import { ApiError } from '../../lib/errors/errors.ts'
import type { Call } from './call.ts'

/** Milliseconds before the engine is asked again if its queue is full. */
const PAUSE_MS = 250

/** Admits many works of one request. Once the first one is admitted, the others wait while the queue is full. */
export class Patience {
  readonly #call: Call
  #isAdmitted = false

  constructor(call: Call) {
    this.#call = call
  }

  readonly generate = (work: Work): Promise<Generation> =>
    this.run(async () => {
      const generation = await this.#call.model.engine.generate(work, this.#call.signal)
      this.#isAdmitted = true
      return generation
    })

  async run<Result>(work: () => Promise<Result>): Promise<Result> {
    const { signal } = this.#call
    for (;;) {
      try {
        return await work()
      } catch (error) {
        if (!this.#isAdmitted || !(error instanceof ApiError) || error.code !== 'model_overloaded') throw error
        await delay(PAUSE_MS, undefined, { signal }).catch(() => signal.throwIfAborted())
      }
    }
  }
}
