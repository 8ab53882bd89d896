import type { EngineEvent } from './engine.ts'

/** Counts the completion tokens of one generation. */
export class TokenTally {
  tokens = 0
  /** Tokens of each running completion. */
  readonly #running = new Map<string, number>()

  add(events: readonly EngineEvent[]): void {
    for (const event of events) {
      if (event.type === 'error') continue
      const completion = `${event.branch} ${event.completion}`
      const before = this.#running.get(completion) ?? 0
      const after = event.type === 'text' ? before + event.tokens : event.completionTokens
      this.tokens += after - before
      if (event.type === 'text') this.#running.set(completion, after)
      else this.#running.delete(completion)
    }
  }
}
