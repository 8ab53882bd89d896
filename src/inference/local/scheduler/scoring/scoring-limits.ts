import type { LoadedModel } from '../loaded-model.ts'

/**
 * How scoring is split into calls. The limits depend on the model alone, never on measured times: the bounds of calls change
 * rounding, and a score must be the same after a restart.
 */
export interface ScoringLimits {
  /** Rows of a call. */
  readonly rows: number
  /** Rows of a call whose logits are computed. */
  readonly outputs: number
  /** Sequences of a call. */
  readonly leaves: number
  /** Tokens of replies in a call, and so in one reply. */
  readonly nodes: number
  /** Whether the model has recurrent layers: each row then belongs to one sequence, and a sequence cannot be cut. */
  readonly isRecurrent: boolean
  /** Whether several questions share a call. Sharing gains nothing if a call for one question is compute-bound. */
  readonly sharesCalls: boolean
  /** Shared calls may use fewer threads if those are faster. */
  readonly threads: number
}

/** llama.cpp's own limit of sequence ids. */
const MOST_SEQUENCES = 256
/** Sequences for the prefix, a question's lead, and copies. */
export const OTHER_SEQUENCES = 3
/** Memory for logits. */
const LOGITS_BYTES = 32 * 2 ** 20
const FEWEST_OUTPUTS = 32
/** Calls of larger models have fewer rows, because other requests wait for them. */
const SMALL_MODEL_BYTES = 256 * 2 ** 20
/** Recurrent layers reserve memory for each sequence. */
const RECURRENT_LEAVES = 4

/** @param isBatchInvariant whether a row's numbers are the same in any call. */
export function scoringLimits(loaded: LoadedModel, isBatchInvariant: boolean): ScoringLimits {
  const { model, weightBytes, offload, context, mediaThreads } = loaded
  const isSmall = weightBytes <= SMALL_MODEL_BYTES
  const rows = isSmall || offload.layers > 0 ? 256 : 128
  const most = Math.floor(LOGITS_BYTES / (model.vocabularySize * Float32Array.BYTES_PER_ELEMENT))
  const outputs = Math.max(FEWEST_OUTPUTS, Math.min(rows, most))
  const isRecurrent = model.cuttablePositions === 0
  const leaves = isRecurrent ? RECURRENT_LEAVES : Math.min(outputs, MOST_SEQUENCES) - OTHER_SEQUENCES
  // With recurrent layers, replies share no rows, and each also has a row for the last token of the prompt.
  const nodes = isRecurrent ? Math.floor(outputs / RECURRENT_LEAVES) - 1 : outputs - 1
  const isPlain = model.cuttablePositions === Number.POSITIVE_INFINITY
  const sharesCalls = isSmall && isPlain && isBatchInvariant
  // A shared call has about as many rows as media, so more threads pay off.
  const threads = sharesCalls ? Math.max(context.threads, mediaThreads) : context.threads
  return { rows, outputs, leaves, nodes, isRecurrent, sharesCalls, threads }
}
