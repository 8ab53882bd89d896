/** Sizes and times of downloads. Tests use smaller ones. */
export const TUNING = {
  /** Bytes that are asked for at a time. What is lost when the process is killed is at most one part per connection. */
  partBytes: 64 * 2 ** 20,
  /** Connections for one file. */
  connections: 4,
  /** A connection that is silent for this long is closed, and the address of the file is requested again. */
  stallMs: 30_000,
  /** The pause before the first new attempt; each further pause is twice as long. */
  retryMs: 1000,
  longestRetryMs: 30_000,
  /** Attempts to ask the hub about a repository. */
  askAttempts: 3,
  /** Attempts of a part of a file without a single byte of progress between them. */
  partAttempts: 8,
  /** What must stay free on the disk beside the files. */
  spareBytes: 2 ** 30,
  /** How often a lock that another process holds is looked at. */
  lockPollMs: 250,
  /** A lock is stale when its holder has not touched it for this long. */
  lockStaleMs: 20_000,
}

export type Tuning = Readonly<typeof TUNING>
