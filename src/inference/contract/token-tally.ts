import type { CompletionId, EngineEvent, Generation } from './generation.ts'

/** Counts the completion tokens of one generation. */
export class TokenTally {
  tokens = 0
  /** By completion: number of its tokens. */
  readonly #counts = new Map<string, number>()
  readonly #settled = new Set<string>()

  add(events: readonly EngineEvent[]): void {
    for (const event of events) {
      if (event.type === 'error') continue
      const key = keyOf(event)
      if (this.#settled.has(key)) continue
      this.#count(key, event.type === 'text' ? (this.#counts.get(key) ?? 0) + event.tokens : event.completionTokens)
    }
  }

  /** Fixes the count of a completion. Later events do not change it. */
  settle(completion: CompletionId, tokens: number): void {
    const key = keyOf(completion)
    this.#settled.add(key)
    this.#count(key, tokens)
  }

  /** Wraps a generation to count its tokens. */
  counting(generation: Pick<Generation, 'prompts' | 'events'>): Generation {
    return {
      ...generation,
      computedTokens: () => this.tokens,
      settle: (completion, tokens) => this.settle(completion, tokens),
    }
  }

  #count(key: string, tokens: number): void {
    this.tokens += tokens - (this.#counts.get(key) ?? 0)
    this.#counts.set(key, tokens)
  }
}

function keyOf({ branch, completion }: CompletionId): string {
  return `${branch} ${completion}`
}
