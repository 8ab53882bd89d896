/** How far an encoder may get in one step. */
export interface EncodeTurn {
  /** After which it pauses, if it can. */
  readonly ms: number
  /** Whether nobody waits for the result. */
  readonly isBackground: boolean
}

/** All at once. */
export const WHOLE: EncodeTurn = { ms: Number.POSITIVE_INFINITY, isBackground: false }

interface Begun {
  readonly owner: object
  readonly isBackground: boolean
  readonly run: Run
}

/** Runs the encoder for about so many ms. @returns its output; null while that is not complete. */
type Run = (ms: number) => Float32Array | null

/**
 * Who has the encoder. It holds one piece of media at a time: what was begun is completed first, whoever has the turn, so
 * that two that take turns do not undo each other's work. Only what nobody waits for gives way, and begins again later.
 */
export class EncoderTurns {
  #begun: Begun | null = null

  /**
   * Has the encoder run for a turn. Blocks.
   * @param owner of the media.
   * @param run goes on with the media of the owner, and keeps its output.
   * @returns the output of `run`; null also when the turn was spent on what had been begun.
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
      // Its owner begins again, and gets the error.
    }
    this.#begun = null
    return true
  }
}
