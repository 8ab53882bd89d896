import type { EngineEvent, ReadAnswer } from '../contract/generation.ts'
import type { EmbedWork, ReadWork, Work } from '../contract/work.ts'

/** Receives measurements of the engines, by model name. Times are in ms. */
export interface PoolMeter {
  loaded(model: string, ms: number): void
  loadFailed(model: string): void
  unloaded(model: string): void
  firstText(model: string, ms: number): void
  /** Time between two texts of one completion. */
  nextText(model: string, ms: number): void
  ended(model: string, outcome: Outcome): void
}

/** How a work ended. `aborted`: the caller left before the end. */
export type Outcome = 'finished' | 'failed' | 'aborted'

/** More completions than any branch has, so that branch and completion combine into one key. */
const COMPLETIONS_PER_BRANCH = 1024

/**
 * Measures a generation, which starts now, by its events.
 * @param onTokens receives the number of tokens of each text.
 * @returns a function from an event to the outcome of the generation; null while it goes on.
 */
export function noteEvents(
  { branches, trace }: Work,
  name: string,
  meter: PoolMeter,
  onTokens: (tokens: number, now: number) => void,
): (event: EngineEvent) => Outcome | null {
  const startedAt = performance.now()
  const lastTexts = new Map<number, number>()
  const unfinished = branches.map(({ n }) => n)
  const failed = new Set<number>()
  return (event) => {
    if (event.type === 'text') {
      const now = performance.now()
      onTokens(event.tokens, now)
      const completion = event.branch * COMPLETIONS_PER_BRANCH + event.completion
      const last = lastTexts.get(completion)
      if (last !== undefined) meter.nextText(name, now - last)
      else if (lastTexts.size === 0) {
        meter.firstText(name, now - startedAt)
        trace?.spoke()
      }
      lastTexts.set(completion, now)
      return null
    }
    unfinished[event.branch]!--
    trace?.settled(event)
    if (event.type === 'error') failed.add(event.branch)
    // Completions of a failed branch may continue, but no one reads them.
    const hasEnded = unfinished.every((left, branch) => left <= 0 || failed.has(branch))
    return hasEnded ? outcomeOf(failed.size, branches.length) : null
  }
}

/** The same for the answers of a read, without measurements. */
export function noteAnswers({ questions, trace }: ReadWork): (answer: ReadAnswer) => Outcome | null {
  let left = questions.length
  let failed = 0
  return (answer) => {
    left--
    if ('error' in answer) {
      failed++
      trace?.settled({ type: 'error' })
    }
    return left === 0 ? outcomeOf(failed, questions.length) : null
  }
}

/** The same for vectors. */
export function noteVectors({ inputs }: EmbedWork): () => Outcome | null {
  let left = inputs.length
  return () => (--left === 0 ? 'finished' : null)
}

function outcomeOf(failed: number, all: number): Outcome {
  return failed === all ? 'failed' : 'finished'
}
