import { Worker } from 'node:worker_threads'
import type { TemplateFindings } from './probe.ts'
import type { ProbeAnswer } from './probe-worker.ts'

/** A template that cannot be used; the message says why. */
export class TemplateError extends Error {
  override readonly name = 'TemplateError'
}

export interface ProbeLimits {
  /** For all of it, with the start of the thread. */
  readonly milliseconds?: number
  /** The longest template, in characters. */
  readonly characters?: number
}

/** Real templates take some ten milliseconds; the thread starts within a few hundred. */
const LIMIT_MS = 10_000
/** The longest ones that are known have 40,000. */
const MAX_CHARACTERS = 2 ** 18
const MAX_HEAP_MB = 64

/**
 * Probes a template in a thread. Templates come with files of others, and can loop for ever or fill the memory.
 * @throws TemplateError
 */
export async function probeGuarded(source: string, limits: ProbeLimits = {}): Promise<TemplateFindings> {
  const { milliseconds = LIMIT_MS, characters = MAX_CHARACTERS } = limits
  if (source.length > characters) {
    throw new TemplateError(`The chat template has ${source.length} characters; at most ${characters} are read`)
  }
  const worker = new Worker(new URL('./probe-worker.ts', import.meta.url), {
    workerData: source,
    resourceLimits: { maxOldGenerationSizeMb: MAX_HEAP_MB },
  })
  const { promise, resolve, reject } = Promise.withResolvers<ProbeAnswer>()
  const timer = setTimeout(
    () =>
      reject(new TemplateError(`The chat template takes more than ${milliseconds / 1000} s for a short conversation`)),
    milliseconds,
  )
  worker.once('message', resolve)
  worker.once('error', ({ message }) => reject(new TemplateError(`The chat template cannot be rendered: ${message}`)))
  try {
    const answer = await promise
    if ('failure' in answer) throw new TemplateError(answer.failure)
    return answer
  } finally {
    clearTimeout(timer)
    await worker.terminate()
  }
}
