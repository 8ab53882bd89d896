import { availableParallelism } from 'node:os'
import type { ModelInfo } from '../../contract/engine.ts'
import type { GpuSettings, OffloadReport } from '../../contract/offload.ts'
import type { RepetitionLimits } from '../../contract/repetition.ts'
import type { Work } from '../../contract/work.ts'
import { KvCache } from '../cache/kv-cache.ts'
import { Adapter } from '../native/adapter.ts'
import { type Compute, choosingThreads, computeOf, usefulThreads } from '../native/compute.ts'
import { Context, type ContextOptions } from '../native/context.ts'
import { bytesOfCpu, planOffload, reportOf, withHint } from '../native/device/offload.ts'
import { repacksWeights } from '../native/kernels.ts'
import type { NativeLibraries } from '../native/libraries.ts'
import type { Llama } from '../native/llama.ts'
import { Model } from '../native/model.ts'
import { Projector, type ProjectorOptions } from '../native/projector.ts'
import type { EngineSettings, LoadStage } from '../protocol.ts'
import { ConstraintCompiler } from '../sampling/constraint-compiler.ts'
import { EncoderCache } from '../tokens/encoder-cache.ts'
import { PromptReader } from '../tokens/prompt-tokens.ts'

/** llama.cpp's own limit of sequence ids (LLAMA_MAX_SEQ). */
const MAX_SEQUENCE_IDS = 256
/**
 * Maximum encoded images of the largest size in the cache if a device computes: one may take 32 MB (1,024 x 8,192 floats).
 */
const DEVICE_ENCODED_IMAGES = 4
/** If the sizes of its parts are unknown, a model is assumed to fit the devices. */
export const ALL_LAYERS: GpuSettings = {
  layers: 1000,
  splitMode: 'layer',
  mainDevice: 0,
  tensorSplit: null,
  devices: null,
  encoder: true,
  weights: { width: 0, layers: 999, modelBytes: 0, encoderBytes: 0, kvBytes: 0, scratchBytes: 0 },
}

/**
 * A loaded model. It owns the native memory of weights, encoders and KV cache, and the readers of prompts and constraints.
 * The engine process opens it; its parts borrow it.
 */
export class LoadedModel {
  readonly llama: Llama
  readonly model: Model
  readonly adapters: ReadonlyMap<string, Adapter>
  readonly context: Context
  readonly kv: KvCache
  readonly reader: PromptReader
  readonly constraints: ConstraintCompiler
  readonly usesMrope: boolean
  /** Maximum threads for decoding: those of the context, or more that are worth a trial. */
  readonly mostThreads: number
  /** Threads for encoding media and for prefill. */
  readonly mediaThreads: number
  readonly info: ModelInfo
  /** Sequences that may run at the same time. */
  readonly maxRunning: number
  /** Assumptions about the hardware that computes the layers. */
  readonly compute: Compute
  readonly offload: OffloadReport
  readonly repetition: RepetitionLimits | null
  /** Whether encoders run on a device, beside the steps. */
  readonly encodesAside: boolean
  /** Bytes of the weights that each token is multiplied with; 0 if unknown. */
  readonly weightBytes: number
  readonly #projector: Projector | null
  readonly #libraries: Pick<NativeLibraries, 'llama' | 'kernels' | 'deviceChoice'>
  readonly #contextSettings: Pick<ContextOptions, 'kvType' | 'mediaRows'>

  /**
   * @param begins called before each stage of loading, which blocks.
   * @throws Error that names the file that does not load.
   */
  constructor(
    { llama, mtmd, kernels, devices, deviceChoice }: NativeLibraries,
    settings: EngineSettings,
    begins: (stage: LoadStage) => void = () => {},
  ) {
    this.llama = llama
    begins('weights')
    const gpu = settings.gpu ?? ALL_LAYERS
    const offload = planOffload(devices, gpu)
    const params = { ...offload.modelParams, use_extra_bufts: repacksWeights(kernels) }
    this.model = withHint(offload, () => new Model(llama, settings.model, settings.printedTokens, params))
    this.adapters = new Map(
      settings.adapters?.map((adapter) => [adapter.name, new Adapter(llama, this.model, adapter)]),
    )
    this.compute = computeOf(offload, kernels !== null)
    // One id for each sequence and each shared prefix: 64 completions of 16 prompts take 81, and one completion alone may
    // need three. A sequence that finds no free id waits.
    const sequences = Math.min(MAX_SEQUENCE_IDS - 1, Math.max(3, Math.ceil(1.25 * settings.maxSequences) + 1))
    // Retained sequences have ids of their own. Recurrent state takes memory for each id, used or not.
    const keeps = settings.prefixCacheBytes > 0 && this.model.cuttablePositions > 0
    const retained = keeps ? Math.min(this.compute.retainedSequences, MAX_SEQUENCE_IDS - 1 - sequences) : 0
    this.maxRunning = settings.maxSequences
    this.repetition = settings.repetition
    this.offload = reportOf(offload, settings.projector !== null)
    const { projector, image, cells } = settings
    const bytes = bytesOfCpu(offload, gpu.weights)
    const cores = availableParallelism()
    const threads = settings.threads ?? usefulThreads(bytes, cores, 'tokens')
    kernels?.shareRows(choosingThreads(this.compute, cores))
    // Threads of the prebuilt kernels never sleep: more of them would take the cores from other programs.
    this.mostThreads = settings.threads ?? (kernels === null ? threads : usefulThreads(bytes, cores, 'tokensAtMost'))
    this.mediaThreads = settings.threads ?? (kernels === null ? threads : usefulThreads(bytes, cores, 'media'))
    begins('encoder')
    if (projector !== null && mtmd === null)
      throw new Error(`${projector} needs libmtmd, which is not installed: run "npx lookout setup".`)
    this.#projector =
      projector === null || mtmd === null
        ? null
        : new Projector(mtmd, projector, this.model, {
            threads: this.mediaThreads,
            image: libraryLimits(image),
            device: offload.encoder?.handle ?? null,
          })
    begins('cache')
    const whole = this.compute.wholeMedia && this.#projector !== null ? this.compute.batchRows : 0
    // Image tokens that attend to each other must be in one batch.
    const mediaRows = Math.max(whole, this.#projector?.attendsWithinImages ? (image?.maxTokens ?? 0) : 0)
    this.#libraries = { llama, kernels, deviceChoice }
    this.#contextSettings = {
      ...(settings.kvType === undefined ? {} : { kvType: settings.kvType }),
      mediaRows,
    }
    this.weightBytes = gpu.weights.modelBytes
    const size = {
      ...this.#contextSettings,
      cells,
      threads,
      // One more for copies of parts of sequences.
      sequences: sequences + retained + 1,
      batchRows: this.compute.batchRows,
    }
    this.context = withHint(offload, () => new Context(this.#libraries, this.model, size))
    this.kv = new KvCache(this.context, sequences + retained, this.model.cuttablePositions)
    this.usesMrope = this.#projector?.usesMrope ?? false
    this.encodesAside = this.#projector?.usesDevice ?? false
    const encoderCache = this.#createEncoderCache(settings)
    // With few cores, waiting for other threads takes longer than reading a text on this one.
    const readsAside = choosingThreads(this.compute, cores) > 1
    this.reader = new PromptReader(this.model, this.#projector, settings, encoderCache, readsAside)
    this.constraints = new ConstraintCompiler(this.model)
    this.info = {
      contextTokens: Math.min(this.context.cells, this.model.trainedContextTokens),
      longestTokenBytes: this.model.longestTokenBytes,
      chatTemplate: this.model.chatTemplate,
      bosToken: this.model.bosToken,
      eosToken: this.model.eosToken,
      modalities: {
        image: this.#projector?.supportsImages ?? false,
        audio: this.#projector?.supportsAudio ?? false,
      },
    }
  }

  /** The adapter that a work names; null for the model alone. */
  adapterOf({ adapter }: Pick<Work, 'adapter'>): Adapter | null {
    if (adapter === undefined) return null
    const found = this.adapters.get(adapter)
    if (found === undefined) throw new Error(`The model has no adapter '${adapter}'.`)
    return found
  }

  /**
   * A further context of the model, beside the one for completions. The caller closes it.
   * @throws Error when its memory cannot be allocated.
   */
  createContext(size: Omit<ContextOptions, 'kvType' | 'mediaRows'>): Context {
    return new Context(this.#libraries, this.model, { ...size, ...this.#contextSettings })
  }

  /** If a device computes, result buffers are reused and few results are kept: the KV cache has the cells of more media. */
  #createEncoderCache({ encoderCacheBytes, image }: EngineSettings): EncoderCache {
    const projector = this.#projector
    if (projector === null || !this.compute.keepsCells) return new EncoderCache(encoderCacheBytes)
    const ofImage = (image?.maxTokens ?? 0) * this.model.embeddingSize * Float32Array.BYTES_PER_ELEMENT
    const limit = Math.min(encoderCacheBytes, DEVICE_ENCODED_IMAGES * ofImage)
    return new EncoderCache(limit, (embeddings) => projector.recycle(embeddings))
  }

  /** Waits for other threads that prepare pictures or sounds. */
  async close(): Promise<void> {
    this.reader.close()
    await this.#projector?.close()
    this.context.close()
    this.model.close()
  }
}

/** Limits for the library. None for families whose images it cuts or enlarges: limits would change how it does so. */
export function libraryLimits(image: EngineSettings['image']): ProjectorOptions['image'] {
  return image === null || image.tiles || image.enlarges ? undefined : image
}
