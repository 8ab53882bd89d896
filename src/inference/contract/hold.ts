/**
 * A request's claim on an engine, from its beginning to its end. After its first work, its other works go before other
 * waiting requests, so that a reply that has begun continues.
 */
export interface Hold {
  /** Releases the engine. Idempotent. */
  release(): void
}
