import { modelOverloaded, tryAgainIn } from '../lib/errors.ts'
import { FairQueue } from '../lib/fair-queue.ts'
import type { DecodeJob } from './decode-job.ts'

/** What one organisation may have of it, so that there is room for others. */
const SHARE = 0.5
const MOST_RETRY_AFTER_S = 30
/** How much the newest job counts in the mean time of a job. */
const NEWEST = 0.1

/** Jobs that wait for a decoder. Organisations take turns. */
export class DecodeQueue {
  readonly #mostJobs: number
  readonly #jobs = new FairQueue<DecodeJob>()
  /** By organisation. */
  readonly #waiting = new Map<string, number>()
  #total = 0
  #meanMs = 100

  /** @param mostJobs that may wait. What they take of memory is bounded where request bodies are admitted. */
  constructor(mostJobs: number) {
    this.#mostJobs = mostJobs
  }

  /**
   * @param decoders that there are to serve the queue.
   * @throws ApiError 503 when the organisation, or all together, have too much waiting.
   */
  add(job: DecodeJob, decoders: number): void {
    const own = this.#waiting.get(job.organisation) ?? 0
    if (this.#total >= this.#mostJobs || own >= this.#mostJobs * SHARE) {
      const seconds = Math.ceil((this.#total * this.#meanMs) / decoders / 1000)
      const retryAfter = Math.min(Math.max(seconds, 1), MOST_RETRY_AFTER_S)
      throw modelOverloaded(`Too much media waits to be decoded. ${tryAgainIn(retryAfter)}`, retryAfter)
    }
    this.return(job)
  }

  /** Puts back, at its place, what was taken: it was let in once. */
  return(job: DecodeJob): void {
    this.#jobs.add(job)
    this.#count(job, 1)
  }

  /** The job whose turn it is; undefined when none waits. */
  take(): DecodeJob | undefined {
    const job = this.#jobs.head
    if (job === undefined) return undefined
    this.#jobs.rotate()
    this.#jobs.remove(job)
    this.#count(job, -1)
    return job
  }

  /** @returns whether it was waiting. */
  remove(job: DecodeJob): boolean {
    if (!this.#jobs.remove(job)) return false
    this.#count(job, -1)
    return true
  }

  /** A job took so long, from when a decoder had it. */
  took(ms: number): void {
    this.#meanMs += (ms - this.#meanMs) * NEWEST
  }

  #count({ organisation }: DecodeJob, change: 1 | -1): void {
    this.#total += change
    const left = (this.#waiting.get(organisation) ?? 0) + change
    if (left === 0) this.#waiting.delete(organisation)
    else this.#waiting.set(organisation, left)
  }
}
