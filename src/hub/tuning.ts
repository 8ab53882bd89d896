/** Sizes and times of downloads. Tests use smaller ones. */
export const TUNING = {
  /** Bytes of one request. A process that is killed loses at most one part per connection. */
  partBytes: 64 * 2 ** 20,
  /** Connections for one file. */
  connections: 4,
  /** A connection that is silent for this long is closed, and the address of the file is requested again. */
  stallMs: 30_000,
  /** The pause before the first retry; each further pause is twice as long. */
  retryMs: 1000,
  longestRetryMs: 30_000,
  /** Attempts to ask the hub about a repository. */
  askAttempts: 3,
  /** Attempts for a part of a file without a single byte of progress. */
  partAttempts: 8,
  /** Bytes that must stay free on the disk. */
  spareBytes: 2 ** 30,
  /** How often a lock that another process holds is checked. */
  lockPollMs: 250,
  /** A lock is stale when its holder has not touched it for this long. */
  lockStaleMs: 20_000,
}

export type Tuning = Readonly<typeof TUNING>
