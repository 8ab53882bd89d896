import { availableParallelism } from 'node:os'
import type { ModelInfo } from '../../../contract/engine.ts'
import type { OffloadReport } from '../../../contract/offload.ts'
import { type Compute, computeOf, usefulThreads } from '../../native/compute.ts'
import { bytesOfCpu, planOffload, reportOf, withHint } from '../../native/device/offload.ts'
import { EmbeddingContext } from '../../native/embedding-context.ts'
import { repacksWeights } from '../../native/kernels.ts'
import type { NativeLibraries } from '../../native/libraries.ts'
import { Model } from '../../native/model.ts'
import { Projector } from '../../native/projector.ts'
import type { EmbeddingSettings, EngineSettings, LoadStage } from '../../protocol.ts'
import { EncoderCache } from '../../tokens/encoder-cache.ts'
import { PromptReader } from '../../tokens/prompt-tokens.ts'
import type { Cells, PrefillCursor } from '../batch/prefill-cursor.ts'
import { ALL_LAYERS, libraryLimits } from '../loaded-model.ts'
import { InputTokens } from './input-tokens.ts'

/** Rows of the measured call. */
const MEASURED_ROWS = 64
/**
 * Maximum ratio of the time of a row in the longest call to the measured time: attention grows quadratically, and the
 * machine may be busy.
 */
const LONGEST_ROW = 4

/** Counts the cells of the only sequence of a multi-call input. */
const CELLS: Cells = {
  grow(sequence, cells, positions) {
    const own = sequence as { position: number; cells: number }
    own.position += positions
    own.cells += cells
  },
}

/** A loaded model that makes vectors or scores. The engine process opens it; the embedder borrows it. */
export class EmbeddingModel {
  readonly model: Model
  readonly context: EmbeddingContext
  readonly inputs: InputTokens
  readonly usesMrope: boolean
  readonly info: ModelInfo
  readonly offload: OffloadReport
  readonly compute: Compute
  readonly threads: number

  /**
   * @param begins called before each stage of loading, which blocks.
   * @throws Error that names the file that does not load.
   */
  constructor(
    { llama, mtmd, devices, kernels }: NativeLibraries,
    settings: EngineSettings,
    embedding: EmbeddingSettings,
    begins: (stage: LoadStage) => void,
  ) {
    begins('weights')
    const gpu = settings.gpu ?? ALL_LAYERS
    const offload = planOffload(devices, gpu)
    const params = { ...offload.modelParams, use_extra_bufts: repacksWeights(kernels) }
    this.model = withHint(offload, () => new Model(llama, settings.model, [], params))
    this.compute = computeOf(offload, kernels !== null)
    const { projector: file, image } = settings
    this.offload = reportOf(offload, file !== null)
    const bytes = bytesOfCpu(offload, gpu.weights)
    this.threads = settings.threads ?? usefulThreads(bytes, availableParallelism(), 'media')
    begins('encoder')
    if (file !== null && mtmd === null)
      throw new Error(`${file} needs libmtmd, which is not installed: run "npx lookout setup".`)
    const device = offload.encoder?.handle ?? null
    const limits = { threads: this.threads, image: libraryLimits(image), device }
    const projector = file === null ? null : new Projector(mtmd!, file, this.model, limits)
    this.usesMrope = projector?.usesMrope ?? false
    begins('cache')
    const contextTokens = Math.min(settings.cells, this.model.trainedContextTokens)
    const options = {
      ...embedding,
      contextTokens,
      batchRows: this.compute.batchRows,
      sequences: settings.maxSequences,
      mediaRows: projector?.attendsWithinImages ? (image?.maxTokens ?? 0) : 0,
      threads: this.threads,
    }
    this.context = withHint(offload, () => new EmbeddingContext(llama, this.model, options))
    const cache = new EncoderCache(settings.encoderCacheBytes)
    const reader = projector === null ? null : new PromptReader(this.model, projector, settings, cache)
    const mediaRows = this.context.batch.capacity
    this.inputs = new InputTokens({ model: this.model, reader, contextTokens, mediaRows }, embedding)
    this.info = {
      contextTokens,
      longestTokenBytes: this.model.longestTokenBytes,
      chatTemplate: null,
      bosToken: this.model.bosToken,
      eosToken: this.model.eosToken,
      modalities: { image: projector?.supportsImages ?? false, audio: false },
      embedding: { dimensions: this.context.dimensions },
    }
  }

  /**
   * Computes the next rows of an input, which must be alone in the context. Its media must be encoded. Blocks.
   * @returns how many rows.
   */
  advance(cursor: PrefillCursor): number {
    const { context, model, usesMrope } = this
    const { batch } = context
    const before = cursor.remaining
    const rows = cursor.textRows(batch.capacity)
    if (rows > 0) {
      cursor.addText(batch, CELLS, rows, 0, true)
      context.compute()
    } else if (cursor.needsEncoding) throw new Error('What the encoder has made of an image is gone.')
    else {
      const memory = { context, kv: CELLS, model, usesMrope }
      cursor.decodeMedia(memory, cursor.mediaRows(batch.capacity, batch.capacity), 0)
    }
    return before - cursor.remaining
  }

  /**
   * Computes a text, so that memory is allocated.
   * @returns the time of a row and of the longest call, in ms.
   */
  warmUp(): { readonly rowMs: number; readonly longestMs: number } {
    const { batch } = this.context
    const rows = Math.min(MEASURED_ROWS, batch.capacity)
    const time = () => {
      for (let row = 0; row < rows; row++) batch.add(row % this.model.vocabularySize, row, 0, true)
      const started = performance.now()
      this.context.compute()
      this.context.clear()
      return performance.now() - started
    }
    time()
    const rowMs = time() / rows
    return { rowMs, longestMs: LONGEST_ROW * rowMs * batch.capacity }
  }
}
