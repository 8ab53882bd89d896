import type { ModelInfo } from '../../engine.ts'
import type { RepetitionLimits } from '../../repetition.ts'
import { KvCache } from '../cache/kv-cache.ts'
import { Context } from '../native/context.ts'
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
 * Sequences of ended work that may stay in the KV cache even while as many run as may. For each id, the library reserves
 * memory for logits.
 */
const RETAINED_SEQUENCES = 16
/**
 * Maximum rows per decode call, unless an image that must be decoded in one call has more. On a CPU, larger batches
 * prefill hardly faster and need more memory for activations and logits. `PrefillPace` decides how many a step takes.
 */
const BATCH_ROWS = 512

/**
 * A model ready for work. It owns the native memory of weights, encoders and KV cache, and the one instance of everything
 * that reads prompts and constraints. The engine process opens it; everything that computes borrows it.
 */
export class LoadedModel {
  readonly llama: Llama
  readonly model: Model
  readonly context: Context
  readonly kv: KvCache
  readonly reader: PromptReader
  readonly constraints: ConstraintCompiler
  readonly usesMrope: boolean
  readonly info: ModelInfo
  /** Sequences that may run at the same time. */
  readonly maxRunning: number
  /** Whether attention computes all cells of many rows for each of them; see `BatchBuilder`. */
  readonly tilesRows: boolean
  readonly repetition: RepetitionLimits | null
  readonly #projector: Projector | null

  /**
   * @param begins called before each stage of loading; the stage then blocks.
   * @throws Error that names the file that does not load.
   */
  constructor(
    { llama, mtmd, kernels }: NativeLibraries,
    settings: EngineSettings,
    begins: (stage: LoadStage) => void = () => {},
  ) {
    this.llama = llama
    begins('weights')
    this.model = new Model(llama, settings.model, settings.printedTokens)
    // One for each sequence, and one for each shared prefix: 64 completions of 16 prompts take 81, and one completion
    // alone may need three. A sequence that finds none free waits.
    const sequences = Math.min(MAX_SEQUENCE_IDS - 1, Math.max(3, Math.ceil(1.25 * settings.maxSequences) + 1))
    // Ended work stays in the KV cache under ids of its own. Recurrent state takes memory for each id, used or not.
    const keeps = settings.prefixCacheBytes > 0 && this.model.cuttablePositions > 0
    const retained = keeps ? Math.min(RETAINED_SEQUENCES, MAX_SEQUENCE_IDS - 1 - sequences) : 0
    this.maxRunning = settings.maxSequences
    this.repetition = settings.repetition
    this.tilesRows = kernels === null
    const { projector, threads, image, cells } = settings
    begins('encoder')
    this.#projector =
      projector === null ? null : new Projector(mtmd, projector, this.model, { threads, image: libraryLimits(image) })
    begins('cache')
    // Image tokens that attend to each other must be in one batch.
    const mediaRows = this.#projector?.attendsWithinImages ? (image?.maxTokens ?? 0) : 0
    this.context = new Context({ llama, kernels }, this.model, {
      cells,
      ...(settings.kvType === undefined ? {} : { kvType: settings.kvType }),
      // One more for copies of parts of sequences.
      sequences: sequences + retained + 1,
      threads,
      batchRows: BATCH_ROWS,
      mediaRows,
    })
    this.kv = new KvCache(this.context, sequences + retained, this.model.cuttablePositions)
    this.usesMrope = this.#projector?.usesMrope ?? false
    this.reader = new PromptReader(this.model, this.#projector, image, new EncoderCache(settings.encoderCacheBytes))
    this.constraints = new ConstraintCompiler(this.model)
    this.info = {
      contextTokens: Math.min(this.context.cells, this.model.trainedContextTokens),
      vocabularySize: this.model.vocabularySize,
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

  close(): void {
    this.reader.close()
    this.#projector?.close()
    this.context.close()
    this.model.close()
  }
}

/** What the library is to keep to. Where it cuts images into tiles, limits of its own would make it cut them in another way. */
function libraryLimits(image: EngineSettings['image']): ProjectorOptions['image'] {
  return image === null || image.tiles ? undefined : image
}
