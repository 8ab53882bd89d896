/** The current load of an engine, and its counters since its process started or since it was opened. */
export interface EngineStats extends Partial<LocalCounters> {
  /** Running completions. */
  readonly running: number
  /** Works whose first completion has not started. */
  readonly waiting: number
  /** KV cells in total, then the cells and sequences in use by running work. */
  readonly totalCells: number
  readonly usedCells: number
  readonly usedSequences: number
  /** Prompt tokens that were computed, and those reused from other work of the organisation. */
  readonly prefilledTokens: number
  readonly reusedTokens: number
  /** Prompts with and without a cached prefix. */
  readonly prefixHits: number
  readonly prefixMisses: number
  /** Tokens generated for completions, without end-of-turn tokens. */
  readonly decodedTokens: number
  /** How often a completion gave up its cells, to be recomputed later. */
  readonly preemptions: number
}

/** Only for an engine on this machine. */
interface LocalCounters {
  /** Cells and sequences that the prefix cache holds, in memory of its own. */
  readonly cachedCells: number
  readonly cachedSequences: number
  /** KV cells and sequences that ended work holds until they are needed; they are not in use. */
  readonly retainedCells: number
  readonly retainedSequences: number
  /** Bytes and pieces of sequences that the prefix cache has on disk, and prompts that were continued from there. */
  readonly diskBytes: number
  readonly diskSequences: number
  readonly diskHits: number
  /** Tokens that were computed ahead because they were expected next, and how many of them were generated. */
  readonly draftedTokens: number
  readonly acceptedTokens: number
  /** Resident memory of the engine's process, in bytes. */
  readonly residentBytes: number
}

export type LocalStats = EngineStats & LocalCounters
