import type { Backend } from '../../config/backend.ts'
import type { ErrorCode } from '../../lib/errors/error-codes.ts'
import type { Param } from '../../lib/errors/param.ts'
import type { AudioLimits, ImageLimits } from '../../models/card.ts'
import type { Pooling } from '../../models/pooling.ts'
import type { ModelInfo, Numerics } from '../contract/engine.ts'
import type { EmbeddedInput, EngineEvent, PromptUsage, ReadAnswer } from '../contract/generation.ts'
import type { GpuSettings, OffloadReport } from '../contract/offload.ts'
import type { PromptPart } from '../contract/parts.ts'
import type { RepetitionLimits } from '../contract/repetition.ts'
import type { LocalStats } from '../contract/stats.ts'
import type { Envelope } from './envelope.ts'
import type { StoredValue } from './shared-file.ts'

/**
 * Messages from the API process to the engine process. They are sent as structured clones, with pixels as typed arrays.
 * Content from clients is in an envelope: if it cannot be read, the id beside it names the failed request.
 */
export type ToEngine =
  /** `compiledKernels`: whether to use the kernels that set-up has compiled, where there are any. */
  | { readonly type: 'load'; readonly settings: EngineSettings; readonly compiledKernels: boolean }
  /** The envelope holds a `Work` without its trace and callback. `traced`: whether its stages are reported. */
  | { readonly type: 'generate'; readonly id: number; readonly work: Envelope; readonly traced: boolean }
  /** The envelope holds the same of a `ReadWork`. */
  | { readonly type: 'read'; readonly id: number; readonly work: Envelope; readonly traced: boolean }
  /** The envelope holds the same of an `EmbedWork`. */
  | { readonly type: 'embed'; readonly id: number; readonly work: Envelope; readonly traced: boolean }
  | { readonly type: 'abort'; readonly id: number }
  /** The envelope holds a `CountedPrompt`. */
  | { readonly type: 'count'; readonly id: number; readonly prompt: Envelope }
  /** The envelope holds a `Work` whose images have their size, but no pixels. */
  | { readonly type: 'measure'; readonly id: number; readonly work: Envelope }
  | { readonly type: 'stats'; readonly id: number }
  /** A large message of this id is in the shared file. The process answers `received`, even if it cannot read it. */
  | { readonly type: 'shared'; readonly id: number; readonly stored: StoredValue }
  | { readonly type: 'close' }

/** A prompt for counting its tokens. */
export interface CountedPrompt {
  readonly organisation: string
  /** Images have their size, but no pixels. */
  readonly parts: readonly PromptPart[]
}

/** File descriptor of the file that both processes share; see `Outbox`. */
export const SHARED_FILE = 5

/** Messages from the engine process to the API process. */
export type FromEngine =
  /**
   * `longestStepMs`: longest step during warm-up. `longestEncodeMs`: encoding time of the largest image. `times`: from
   * calibration.
   */
  | {
      readonly type: 'ready'
      readonly info: ModelInfo
      readonly kernels: KernelsInUse
      readonly offload: OffloadReport
      readonly numerics: Numerics
      readonly longestStepMs: number
      readonly longestEncodeMs: number
      readonly times: StepTimes
    }
  /** Sent at the start of each stage of loading, and whenever a stage has made progress. */
  | { readonly type: 'loading'; readonly stage: LoadStage }
  | { readonly type: 'heartbeat' }
  | { readonly type: 'received' }
  | { readonly type: 'failed'; readonly message: string }
  | { readonly type: 'admitted'; readonly id: number; readonly prompts: readonly PromptUsage[] }
  | { readonly type: 'counted'; readonly id: number; readonly tokens: number }
  | { readonly type: 'measured'; readonly id: number; readonly prompts: readonly PromptUsage[] }
  | { readonly type: 'stats'; readonly id: number; readonly stats: LocalStats }
  /** For traced work: its first completion was admitted; or the encoder has completed a chunk of its media in `ms`. */
  | { readonly type: 'started'; readonly id: number }
  | { readonly type: 'encoded'; readonly id: number; readonly ms: number }
  /** All events of one step. */
  | { readonly type: 'events'; readonly requests: readonly RequestEvents[] }
  /** Answers to some questions of a read. `last`: no further answers follow. */
  | {
      readonly type: 'answers'
      readonly id: number
      readonly answers: readonly SentAnswer[]
      readonly last: boolean
    }
  /** Vectors of some inputs. `last`: no further vectors follow. */
  | {
      readonly type: 'vectors'
      readonly id: number
      readonly vectors: readonly EmbeddedInput[]
      readonly last: boolean
    }
  /** The request was rejected or has failed; no further message follows for it. */
  | { readonly type: 'error'; readonly id: number; readonly error: EngineFailure }

/** Step times of a loaded model, in ms. */
export interface StepTimes {
  /** One step of one sequence. */
  readonly stepMs: number
  /** One row of a prompt in a large batch. */
  readonly promptRowMs: number
}

/** The kernels that the CPU runs. */
export interface KernelsInUse {
  /** Whether they are ours; otherwise they are the best of llama.cpp's prebuilt kernels. */
  readonly compiled: boolean
  /** For which level of processors ours was compiled; null: for this machine's. */
  readonly level: string | null
  /** Instruction sets in use, as ggml names them, such as `AVX512`. */
  readonly features: readonly string[]
  /** Number of threads for decoding on an idle machine. */
  readonly threads: number
}

/** The stages of loading, before the engine process is ready. */
export type LoadStage = 'libraries' | 'weights' | 'cache' | 'encoder' | 'warm-up'

/** A `ReadAnswer`, with its error in the form in which it is sent. */
export type SentAnswer =
  | Extract<ReadAnswer, { readonly logProbs: readonly number[] }>
  | { readonly question: number; readonly error: EngineFailure }

export interface RequestEvents {
  readonly id: number
  readonly events: readonly EngineEvent[]
  /** No further events follow for this request. */
  readonly last: boolean
}

/** Settings of the engine process, from the model card and the machine. */
export interface EngineSettings {
  readonly model: string
  /** All files of a split model, `model` first. */
  readonly modelParts?: readonly string[]
  readonly projector: string | null
  /** LoRA adapters; a work may name one. */
  readonly adapters?: readonly AdapterSettings[]
  /** KV cells shared by all sequences. */
  readonly cells: number
  /** Storage type of keys and values; `f16` by default. */
  readonly kvType?: 'f16' | 'q8_0'
  /** Maximum completions that run at the same time. */
  readonly maxSequences: number
  /** Texts of control tokens whose text is part of the output. */
  readonly printedTokens: readonly string[]
  /** Whether next tokens may be drafted from the prompt and the reply, and verified in one batch. */
  readonly speculation: boolean
  /** Limits on repetition; null for none. */
  readonly repetition: RepetitionLimits | null
  /** How images and frames are prepared; null if the model takes none. */
  readonly image: ImageLimits | null
  /** How audio is counted; absent if the model takes none. */
  readonly audio?: AudioLimits
  /** The backend; by default, the environment's. */
  readonly backend?: Backend
  /** Null to derive it from the CPU's share of the weights. */
  readonly threads: number | null
  /** Settings for GPUs; by default, as many layers as fit. */
  readonly gpu?: GpuSettings
  /** Set for a model that makes embeddings or scores, and writes no text. */
  readonly embedding?: EmbeddingSettings
  /** Maximum requests that wait for their first completion to start. */
  readonly maxWaiting: number
  /** Size of the prefix cache, which keeps prefixes of finished work for later requests; 0 for none. */
  readonly prefixCacheBytes: number
  /** Size of the cache of encoded images and audio; 0 for none. */
  readonly encoderCacheBytes: number
  /** The prefix cache on disk; absent for none. */
  readonly prefixDisk?: PrefixDiskSettings
  /** Random seed of every request; null draws a new seed for each. */
  readonly seed: number | null
  /** For the fingerprint. */
  readonly origin?: PromptOrigin
}

interface AdapterSettings {
  readonly name: string
  readonly path: string
  /** Factor of the adapter's contribution. */
  readonly scale: number
}

export interface EmbeddingSettings {
  readonly pooling: Pooling
  /** Whether a reranker's scores are probabilities; otherwise they are logits. */
  readonly ratesByProbability: boolean
  /** How inputs are shown to the model; see the card's `embedding`. */
  readonly prompt?: string | undefined
  readonly instruction?: string | undefined
}

/** The code that renders prompts in the API process. */
interface PromptOrigin {
  /** Version of Lookout. */
  readonly version: string
  readonly chatTemplate: string | null
}

export interface PrefixDiskSettings {
  /** The directory for all models and organisations. */
  readonly directory: string
  /** Maximum bytes of all files in it. */
  readonly limitBytes: number
  /** Names the model, regardless of its files. */
  readonly model: string
  /** Whether all pieces are written and read, even if that saves little time; for tests, whose models are small. */
  readonly keepsAll?: boolean
}

/** An error in the form in which it is sent between the processes; see `toApiError`. */
export type EngineFailure =
  | {
      readonly kind: 'invalid'
      readonly message: string
      readonly param: Param | null
      readonly code?: ErrorCode | null
    }
  | { readonly kind: 'overloaded'; readonly message: string; readonly retryAfter: number }
  | { readonly kind: 'internal'; readonly message: string }
