import { type Priority, yieldsTo } from '../../contract/priority.ts'

/** The encoder's part of one step. */
export interface EncodeTurn {
  /** Time after which it pauses, if it can. */
  readonly ms: number
  /** Priority of the work that needs the result. */
  readonly priority: Priority
}

/** Encodes without a pause. */
export const WHOLE: EncodeTurn = { ms: Number.POSITIVE_INFINITY, priority: 'interactive' }

interface Begun {
  readonly owner: object
  readonly priority: Priority
  readonly run: Run
}

/** Runs the encoder for about `ms`. @returns its output; null while that is incomplete. */
type Run = (ms: number) => Float32Array | null

/**
 * Arbitrates the encoder, which holds one media chunk at a time. A chunk that has begun is completed first, even in
 * another owner's turn, so that two owners do not undo each other's work. Only chunks of less urgent work yield, and
 * begin again later; a live owner yields only once.
 */
export class EncoderTurns {
  #begun: Begun | null = null
  /** Owners whose chunks have yielded. */
  readonly #yielded = new WeakSet<object>()

  /**
   * Runs the encoder for a turn. Blocks.
   * @param owner of the media.
   * @param run continues with the owner's media, and stores the output.
   * @returns the output of `run`; null also if the turn went to the chunk that had begun.
   */
  take(owner: object, { ms, priority }: EncodeTurn, run: Run): Float32Array | null {
    const other = this.#begun?.owner === owner ? null : this.#begun
    if (other !== null && !this.#mustYield(other, priority)) {
      const isDone = this.#complete(other, ms)
      if (!isDone || ms !== WHOLE.ms) return null
    } else if (other !== null) this.#yielded.add(other.owner)
    this.#begun = null
    const output = run(ms)
    if (output === null) this.#begun = { owner, priority, run }
    return output
  }

  /** Abandons the owner's media. */
  leave(owner: object): void {
    if (this.#begun?.owner === owner) this.#begun = null
  }

  #mustYield({ owner, priority }: Begun, other: Priority): boolean {
    return yieldsTo(priority, other) && (priority === 'background' || !this.#yielded.has(owner))
  }

  #complete({ run }: Begun, ms: number): boolean {
    try {
      if (run(ms) === null) return false
    } catch {
      // The owner starts again and gets the error.
    }
    this.#begun = null
    return true
  }
}
