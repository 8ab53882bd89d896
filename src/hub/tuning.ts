/** Sizes and times of downloads. Tests use smaller ones. */
export interface Tuning {
  /** Bytes that are asked for at a time. What is lost when the process is killed is at most one part per connection. */
  readonly partBytes: number
  /** Connections for one file. */
  readonly connections: number
  /** A connection that is silent for this long is closed, and the address of the file is requested again. */
  readonly stallMs: number
  /** The pause before the first new attempt; each further pause is twice as long. */
  readonly retryMs: number
  readonly longestRetryMs: number
  /** Attempts to ask the hub about a repository. */
  readonly askAttempts: number
  /** Attempts of a part of a file without a single byte of progress between them. */
  readonly partAttempts: number
  /** What must stay free on the disk beside the files. */
  readonly spareBytes: number
  /** How often a lock that another process holds is looked at. */
  readonly lockPollMs: number
  /** A lock is stale when its holder has not touched it for this long. */
  readonly lockStaleMs: number
}

export const TUNING: Tuning = {
  partBytes: 64 * 2 ** 20,
  connections: 4,
  stallMs: 30_000,
  retryMs: 1000,
  longestRetryMs: 30_000,
  askAttempts: 3,
  partAttempts: 8,
  spareBytes: 2 ** 30,
  lockPollMs: 250,
  lockStaleMs: 20_000,
}
