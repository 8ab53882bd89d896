/** The encoder's part of one step. */
export interface EncodeTurn {
  /** Time after which it pauses, if it can. */
  readonly ms: number
  /** Whether the result is for background work. */
  readonly isBackground: boolean
}

/** Encodes without a pause. */
export const WHOLE: EncodeTurn = { ms: Number.POSITIVE_INFINITY, isBackground: false }

interface Begun {
  readonly owner: object
  readonly isBackground: boolean
  readonly run: Run
}

/** Runs the encoder for about `ms`. @returns its output; null while that is incomplete. */
type Run = (ms: number) => Float32Array | null

/**
 * Arbitrates the encoder, which holds one media chunk at a time. A chunk that has begun is completed first, even in another
 * owner's turn, so that two owners do not undo each other's work. Only background chunks yield, and begin again later.
 */
export class EncoderTurns {
  #begun: Begun | null = null

  /**
   * Runs the encoder for a turn. Blocks.
   * @param owner of the media.
   * @param run continues with the owner's media, and stores the output.
   * @returns the output of `run`; null also if the turn went to the chunk that had begun.
   */
  take(owner: object, { ms, isBackground }: EncodeTurn, run: Run): Float32Array | null {
    const other = this.#begun?.owner === owner ? null : this.#begun
    if (other !== null && (isBackground || !other.isBackground)) {
      const isDone = this.#complete(other, ms)
      if (!isDone || ms !== WHOLE.ms) return null
    }
    this.#begun = null
    const output = run(ms)
    if (output === null) this.#begun = { owner, isBackground, run }
    return output
  }

  /** The media of the owner are no longer needed. */
  leave(owner: object): void {
    if (this.#begun?.owner === owner) this.#begun = null
  }

  #complete({ run }: Begun, ms: number): boolean {
    try {
      if (run(ms) === null) return false
    } catch {
      // Its owner begins again and gets the error.
    }
    this.#begun = null
    return true
  }
}
