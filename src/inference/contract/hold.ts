/**
 * What a request has of an engine from its beginning to its end. Once the engine has taken a work of it, it takes the others
 * too before what else waits: a reply that has begun goes on.
 */
export interface Hold {
  /** Lets go of the engine. Further calls change nothing. */
  release(): void
}
