import type { TemplateTraits } from '../../templates/traits.ts'
import type { Embedding, Generation, Measurement, Reading } from './generation.ts'
import type { Hold } from './hold.ts'
import type { OffloadReport } from './offload.ts'
import type { PromptPart } from './parts.ts'
import type { EngineStats } from './stats.ts'
import type { EmbedWork, ReadWork, Work } from './work.ts'

/**
 * The interface between `conversation/` and a model, local or remote. Work that generates has one shape: a shared prefix
 * and branches. The engine prefills the prefix once. Each branch continues it with its own suffix and yields `n`
 * completions. A chat is one branch with an empty suffix; multilook is many branches over one prefix.
 *
 * Several works may run at the same time; the engine schedules them.
 */
export interface Engine {
  readonly info: ModelInfo
  readonly state: EngineState
  /** What runs where on this machine; absent where a model runs on others, or before it has been loaded. */
  readonly offload?: OffloadReport | null
  /** What its numbers depend on; absent where others compute them, or before it has been loaded. */
  readonly numerics?: Numerics | null

  /**
   * Admits the work: tokenises the prompt, checks it against the context window and queues it. The promise resolves at
   * admission, so the errors that must precede a response (prompt too long, overload) reject it.
   *
   * @param signal aborting it frees everything that the work holds within one step; `events` then rejects with the
   * abort reason.
   * @throws ApiError 400 when a branch does not fit the context window (param from `branch.param`) or its constraint is
   * not supported (param from `constraint.param`), and 503 `model_overloaded` when the queue is full or the engine is
   * restarting.
   */
  generate(work: Work, signal: AbortSignal): Promise<Generation>

  /**
   * Counts the prompt tokens of the parts, exactly for text and media; an engine whose servers alone can count them
   * estimates. The count is infinite for text that is far too
   * long for the context: it is not read to its end.
   * @throws ApiError 400 for parts that the model does not accept, 503 `model_overloaded` while the engine is
   * restarting.
   */
  countTokens(parts: readonly PromptPart[], options: CountOptions): Promise<number>

  /**
   * Validates the work and counts its prompts, without queueing it. It reports and rejects the same as `generate`, except for
   * what depends on other work. It does not look at pictures.
   * @throws ApiError as `generate` does.
   */
  measure(work: Work, signal: AbortSignal): Promise<Measurement>

  /**
   * Reads how likely the model is to give certain replies to questions about one prefix. The numbers of a question depend on
   * the prefix and on the question alone: not on other questions, their order, caches or other work, except for the
   * roundings of servers that compute batches of several requests. Absent where an engine cannot read.
   *
   * The promise resolves at admission, as that of `generate` does.
   * @throws ApiError as `generate` does; also 400 for what this model cannot read.
   */
  read?(work: ReadWork, signal: AbortSignal): Promise<Reading>

  /**
   * Makes a vector of each text, or the score of each document. Only engines of models with `info.embedding` do, and these do
   * nothing else. Short texts share a call; it makes no difference beyond roundings.
   *
   * The promise resolves at admission, as that of `generate` does.
   * @throws ApiError as `generate` does.
   */
  embed?(work: EmbedWork, signal: AbortSignal): Promise<Embedding>

  /**
   * The engine's current state and counters; absent where an engine has none. @throws ApiError 503 while it is down.
   */
  stats?(): Promise<EngineStats>

  /**
   * Keeps the engine for a request, which may give it several works: where its model is removed meanwhile, the engine is
   * closed after that. Absent where models are never removed.
   */
  hold?(): Hold

  /** Frees everything that the engine holds. Work in progress fails; new work is rejected with 503. */
  close(): Promise<void>
}

export interface CountOptions extends Pick<Work, 'priority' | 'hold'> {
  /** Owner of the parts. What is cached while counting them is used for this organisation's work only. */
  readonly organisation: string
  /** Aborting rejects the count at once, with the abort reason. */
  readonly signal: AbortSignal
}

/** An `unloaded` engine takes no memory. The next work loads it. */
export type EngineState = 'unloaded' | 'starting' | 'ready' | 'restarting' | 'closed'

/** The properties of a loaded model. */
export interface ModelInfo {
  /** Tokens in one sequence at most, prompt and completion together. */
  readonly contextTokens: number
  /**
   * Bytes of text in one token at most. Infinite where that is unknown, for example before the model is first loaded.
   */
  readonly longestTokenBytes: number
  /** Whether counts of tokens are estimates: only the servers can count, and they refuse a prompt that is too long. */
  readonly estimatesTokens?: boolean
  /** Jinja source of the chat template; null when the model has none. */
  readonly chatTemplate: string | null
  /**
   * How the template is called, for one of somebody else: it runs in a process of its own. Absent for a template of this
   * program.
   */
  readonly templateTraits?: TemplateTraits | undefined
  /** Texts of the special tokens that templates refer to; empty when the model has none. */
  readonly bosToken: string
  readonly eosToken: string
  readonly modalities: { readonly image: boolean; readonly audio: boolean }
  /** Set for a model that makes vectors or scores, not text; `dimensions` is null where only its servers know them. */
  readonly embedding?: { readonly dimensions: number | null }
}

/** What the numbers of a loaded model depend on, beside the request. */
export interface Numerics {
  /** `fp_` and 12 hexadecimal digits: a hash of `parts`. */
  readonly fingerprint: string
  /** In words for people. Equal parts mean equal numbers where `isInvariant`. */
  readonly parts: NumericParts
  /**
   * Whether a request is promised the same bits alone and beside others, with and without caches, and however its prompt is
   * cut.
   */
  readonly isInvariant: boolean
  /** The same of the model with each of its adapters, by its name. */
  readonly adapters?: Readonly<Record<string, Pick<Numerics, 'fingerprint' | 'parts'>>>
}

export interface NumericParts {
  /** Hash of the size of the model's files, of their headers, and of samples of their weights. */
  readonly weights: string
  /** The same of the encoder's file, and the library that runs it; absent of a model without one. */
  readonly encoder?: string
  /** Hash of the adapter's file and scale; absent of the model alone. */
  readonly adapter?: string
  /** Hash of the chat template. */
  readonly template: string
  /** Versions of Lookout and of llama.cpp. */
  readonly release: string
  /** The kernels for the processor, and what of it they use. */
  readonly kernels: string
  /** Absent where the processor computes everything. */
  readonly devices?: string
  /** Those of the card's settings that change numbers. */
  readonly settings: string
}
