import type { LoadedModel } from '../loaded-model.ts'

/**
 * How scoring is cut into calls. Numbers depend on the model alone, never on measured times: the borders between calls
 * change roundings, and a score must be the same after a restart.
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
  /** Whether each row belongs to one sequence only, and a sequence cannot be cut: so it is with recurrent layers. */
  readonly isRecurrent: boolean
  /** Whether several questions share a call. Where a call computes long enough for one, it would gain nothing. */
  readonly sharesCalls: boolean
  /** Where calls are shared, they may have fewer when those are faster. */
  readonly threads: number
}

/** llama.cpp's own limit of sequence ids. */
const MOST_SEQUENCES = 256
/** For the prefix, a question's own beginning, and copies. */
export const OTHER_SEQUENCES = 3
/** Memory for logits. */
const LOGITS_BYTES = 32 * 2 ** 20
const FEWEST_OUTPUTS = 32
/** Rows of larger models take so long that other requests must not wait for more of them. */
const SMALL_MODEL_BYTES = 256 * 2 ** 20
/** Recurrent layers reserve memory for each sequence. */
const RECURRENT_LEAVES = 4

/** @param isBatchInvariant whether a row's numbers are the same whatever else is in its call. */
export function scoringLimits(loaded: LoadedModel, isBatchInvariant: boolean): ScoringLimits {
  const { model, weightBytes, offload, context, mediaThreads } = loaded
  const isSmall = weightBytes <= SMALL_MODEL_BYTES
  const rows = isSmall || offload.layers > 0 ? 256 : 128
  const most = Math.floor(LOGITS_BYTES / (model.vocabularySize * Float32Array.BYTES_PER_ELEMENT))
  const outputs = Math.max(FEWEST_OUTPUTS, Math.min(rows, most))
  const isRecurrent = model.cuttablePositions === 0
  const leaves = isRecurrent ? RECURRENT_LEAVES : Math.min(outputs, MOST_SEQUENCES) - OTHER_SEQUENCES
  // With recurrent layers, replies share no rows, and each has one for the last token of the prompt too.
  const nodes = isRecurrent ? Math.floor(outputs / RECURRENT_LEAVES) - 1 : outputs - 1
  const isPlain = model.cuttablePositions === Number.POSITIVE_INFINITY
  const sharesCalls = isSmall && isPlain && isBatchInvariant
  // A shared call has as many rows as media have, so more threads are worth it.
  const threads = sharesCalls ? Math.max(context.threads, mediaThreads) : context.threads
  return { rows, outputs, leaves, nodes, isRecurrent, sharesCalls, threads }
}
