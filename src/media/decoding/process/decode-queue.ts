import { modelOverloaded, tryAgainIn } from '../../../lib/errors/errors.ts'
import { FairQueue } from '../../../lib/fair-queue.ts'
import type { DecodeJob } from './decode-job.ts'

/** The share of the queue that one organisation may use, so that there is room for others. */
const SHARE = 0.5
const MOST_RETRY_AFTER_S = 30
/** The weight of the newest job in the moving average of job times. */
const NEWEST = 0.1

/** Jobs that wait for a decoder. Organisations take turns. */
export class DecodeQueue {
  readonly #mostJobs: number
  readonly #jobs = new FairQueue<DecodeJob>()
  #meanMs = 100

  /** @param mostJobs the most jobs that may wait. Request body admission bounds their memory. */
  constructor(mostJobs: number) {
    this.#mostJobs = mostJobs
  }

  /**
   * @param decoders the number of decoders that serve the queue.
   * @throws ApiError 503 when too many jobs wait, of this organisation or in total.
   */
  add(job: DecodeJob, decoders: number): void {
    const { size } = this.#jobs
    if (size >= this.#mostJobs || this.#jobs.sizeOf(job.organisation) >= this.#mostJobs * SHARE) {
      const seconds = Math.ceil((size * this.#meanMs) / decoders / 1000)
      const retryAfter = Math.min(Math.max(seconds, 1), MOST_RETRY_AFTER_S)
      throw modelOverloaded(`Too much media is waiting to be decoded. ${tryAgainIn(retryAfter)}`, retryAfter)
    }
    this.return(job)
  }

  /** Puts a job back in its place. It was admitted before, so no limit applies. */
  return(job: DecodeJob): void {
    this.#jobs.add(job)
  }

  /** Removes the job whose turn it is; undefined when none waits. */
  take(): DecodeJob | undefined {
    const job = this.#jobs.head
    if (job === undefined) return undefined
    this.#jobs.rotate()
    this.#jobs.remove(job)
    return job
  }

  /** @returns whether the job was waiting. */
  remove(job: DecodeJob): boolean {
    return this.#jobs.remove(job)
  }

  /** Records how long a decoder worked on a job. */
  recordTime(ms: number): void {
    this.#meanMs += (ms - this.#meanMs) * NEWEST
  }
}
