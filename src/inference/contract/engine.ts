import type { TemplateTraits } from '../../templates/traits.ts'
import type { Embedding, Generation, Measurement, Reading } from './generation.ts'
import type { Hold } from './hold.ts'
import type { OffloadReport } from './offload.ts'
import type { PromptPart } from './parts.ts'
import type { EngineStats } from './stats.ts'
import type { EmbedWork, ReadWork, Work } from './work.ts'

/**
 * The interface between `conversation/` and a model, local or remote. All generating work has one shape: a shared
 * prefix and branches. The engine prefills the prefix once. Each branch continues it with its own suffix and yields `n`
 * completions. A chat is one branch with an empty suffix; multilook is many branches over one prefix.
 *
 * Several works may run at the same time; the engine schedules them.
 */
export interface Engine {
  readonly info: ModelInfo
  readonly state: EngineState
  /** What runs where on this machine; absent for a model on other servers, or one that has not been loaded. */
  readonly offload?: OffloadReport | null
  /** What its numbers depend on; absent for a model on other servers, or one that has not been loaded. */
  readonly numerics?: Numerics | null

  /**
   * Admits the work: tokenises the prompt, checks it against the context window and queues it. The promise resolves at
   * admission, so errors that must precede a response (prompt too long, overload) reject it.
   *
   * @param signal aborting it frees everything that the work holds within one step; `events` then rejects with the
   * abort reason.
   * @throws ApiError 400 when a branch does not fit the context window (param from `branch.param`) or its constraint is
   * not supported (param from `constraint.param`), and 503 `model_overloaded` when the queue is full or the engine is
   * restarting.
   */
  generate(work: Work, signal: AbortSignal): Promise<Generation>

  /**
   * Counts the prompt tokens of the parts, exactly for text and media. If only remote servers can count, it estimates.
   * The count is infinite for text that is far too long for the context, because it is not read to its end.
   * @throws ApiError 400 for parts that the model does not accept, 503 `model_overloaded` while the engine is
   * restarting.
   */
  countTokens(parts: readonly PromptPart[], options: CountOptions): Promise<number>

  /**
   * Validates the work and counts its prompts, without queueing it. Reports and rejects the same as `generate`, except
   * for what depends on other work. Does not read pixels.
   * @throws ApiError as `generate` does.
   */
  measure(work: Work, signal: AbortSignal): Promise<Measurement>

  /**
   * Computes the probabilities of given replies to questions about one prefix. The numbers of a question depend only on
   * the prefix and the question, not on other questions, their order, caches or other work, except for rounding on
   * servers that batch several requests. Absent if an engine cannot read.
   *
   * The promise resolves at admission, like that of `generate`.
   * @throws ApiError as `generate` does; also 400 for what this model cannot read.
   */
  read?(work: ReadWork, signal: AbortSignal): Promise<Reading>

  /**
   * Computes a vector of each input, or the score of each document. Only engines of models with `info.embedding` have
   * it, and they do nothing else. Short texts share a call, which changes results by no more than rounding.
   *
   * The promise resolves at admission, like that of `generate`.
   * @throws ApiError as `generate` does.
   */
  embed?(work: EmbedWork, signal: AbortSignal): Promise<Embedding>

  /**
   * The engine's current load and counters; absent if an engine has none.
   * @throws ApiError 503 while it is down.
   */
  stats?(): Promise<EngineStats>

  /**
   * Reserves the engine for a request, which may give it several works: if its model is removed meanwhile, the engine
   * is closed only after the release. Absent if models are never removed.
   */
  hold?(): Hold

  /** Frees everything that the engine holds. Work in progress fails; new work is rejected with 503. */
  close(): Promise<void>
}

export interface CountOptions extends Pick<Work, 'priority' | 'hold'> {
  /** Owner of the parts. What is cached while counting is used only for this organisation's work. */
  readonly organisation: string
  /** Aborting rejects the count at once, with the abort reason. */
  readonly signal: AbortSignal
}

/** An `unloaded` engine takes no memory; the next work loads it. */
export type EngineState = 'unloaded' | 'starting' | 'ready' | 'restarting' | 'closed'

/** The properties of a loaded model. */
export interface ModelInfo {
  /** Maximum tokens of one sequence, prompt and completion together. */
  readonly contextTokens: number
  /** Maximum bytes of text in one token. Infinite if unknown, for example before the model is first loaded. */
  readonly longestTokenBytes: number
  /** Whether token counts are estimates: only the servers can count, and they reject a prompt that is too long. */
  readonly estimatesTokens?: boolean
  /** Jinja source of the chat template; null if the model has none. */
  readonly chatTemplate: string | null
  /** Traits of a third-party template, which is rendered in a process of its own. Absent for a built-in template. */
  readonly templateTraits?: TemplateTraits | undefined
  /** Texts of the special tokens that templates refer to; empty if the model has none. */
  readonly bosToken: string
  readonly eosToken: string
  readonly modalities: { readonly image: boolean; readonly audio: boolean }
  /** Numbers in the model's vector of one token. Absent if unknown, as for a model on another server. */
  readonly embeddingLength?: number | undefined
  /**
   * Set for a model that makes vectors or scores instead of text; `dimensions` is null if only its servers know them.
   */
  readonly embedding?: { readonly dimensions: number | null }
}

/** What the numbers of a loaded model depend on, apart from the request. */
export interface Numerics {
  /** `fp_` and 12 hexadecimal digits: a hash of `parts`. */
  readonly fingerprint: string
  /** In human-readable form. Equal parts mean equal numbers if `isInvariant`. */
  readonly parts: NumericParts
  /**
   * Whether a request gets the same bits alone or with others, with or without caches, and for any split of its prompt.
   */
  readonly isInvariant: boolean
  /** The same for the model with each of its adapters, by name. */
  readonly adapters?: Readonly<Record<string, Pick<Numerics, 'fingerprint' | 'parts'>>>
}

export interface NumericParts {
  /** Hash of the size of the model's files, their headers, and samples of their weights. */
  readonly weights: string
  /** The same for the encoder's file, with the library that runs it; absent for a model without one. */
  readonly encoder?: string
  /** Hash of the adapter's file and scale; absent for the model alone. */
  readonly adapter?: string
  /** Hash of the chat template. */
  readonly template: string
  /** Versions of Lookout and of llama.cpp. */
  readonly release: string
  /** The kernels for the processor, and the instructions that they use. */
  readonly kernels: string
  /** Absent where the processor computes everything. */
  readonly devices?: string
  /** Absent if the processor computes everything. */
  readonly settings: string
}
