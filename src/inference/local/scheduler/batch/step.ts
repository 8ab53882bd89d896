import type { Adapter } from '../../native/adapter.ts'
import type { Sequence } from '../sequences/sequence.ts'
import type { RunningSequence, SequenceGroup } from '../sequences/sequence-group.ts'
import type { PrefillCursor } from './prefill-cursor.ts'

/** A prompt, or forced text, that is being prefilled. */
export interface Prefill {
  readonly cursor: PrefillCursor
  readonly group: SequenceGroup
  /** The sequence whose next token follows it; null for a shared prefix. */
  readonly sequence: Sequence | null
}

/** The part of a prefill that one step computes. */
export interface PrefillPart {
  readonly cursor: PrefillCursor
  readonly group: SequenceGroup
  readonly rows: number
  /** If the prefill ends in this step, the sequence whose next token the step decodes as well; else null. */
  readonly next: Sequence | null
}

/** A sequence whose next token is decoded, with its draft. */
export interface Decoding extends RunningSequence {
  /** Draft tokens; each has a row, so that the step may yield several tokens. */
  readonly draft: readonly number[]
}

/** What one step computes. It has one call of the native library. */
export type Step = EncodeStep | MediaStep | TextStep

interface CountedStep {
  /** Ascending from 1. */
  readonly number: number
  /** The adapter of all of its sequences; null for the model alone. */
  readonly adapter: Adapter | null
  /** Prompt tokens that it computes, including recomputation after a preemption. */
  readonly promptTokens: number
}

/** Runs the encoder on media, for all or a part of the work. */
interface EncodeStep extends CountedStep {
  readonly type: 'encode'
  readonly prefill: Prefill
  /** Time after which the encoder pauses, if it can. */
  readonly ms: number
}

/** Prefills embeddings of encoded media. */
interface MediaStep extends CountedStep {
  readonly type: 'media'
  readonly prefill: Prefill
  /** Tokens of the media, each with an embedding. */
  readonly rows: number
}

/** Decodes next tokens and, beside them, prefills text. */
export interface TextStep extends CountedStep {
  readonly type: 'text'
  readonly round: number
  readonly decoding: readonly Decoding[]
  readonly prefills: readonly PrefillPart[]
  /** Rows of the batch. */
  readonly rows: number
  /** Cells that the rows attend to, summed over all rows. */
  readonly cellsRead: number
}

/** A step failed in native code, and its groups with it. */
export class StepError extends Error {
  readonly groups: ReadonlySet<SequenceGroup>

  constructor(groups: Iterable<SequenceGroup>, cause: unknown) {
    super('A step failed.', { cause })
    this.groups = new Set(groups)
  }
}
