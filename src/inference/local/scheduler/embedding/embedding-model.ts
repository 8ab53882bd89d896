import { availableParallelism } from 'node:os'
import type { ModelInfo } from '../../../contract/engine.ts'
import type { OffloadReport } from '../../../contract/offload.ts'
import { type Compute, computeOf, usefulThreads } from '../../native/compute.ts'
import { EmbeddingContext } from '../../native/embedding-context.ts'
import { repacksWeights } from '../../native/kernels.ts'
import type { NativeLibraries } from '../../native/libraries.ts'
import { Model } from '../../native/model.ts'
import { bytesOfCpu, planOffload, reportOf, withHint } from '../../native/offload.ts'
import type { EmbeddingSettings, EngineSettings, LoadStage } from '../../protocol.ts'
import { ALL_LAYERS } from '../loaded-model.ts'

/** Rows of the call that is measured. */
const MEASURED_ROWS = 64
/** How many times as long a row takes among the most: attention grows by the square, and the machine may be busy. */
const LONGEST_ROW = 4

/** A loaded model that makes vectors or scores. The engine process opens it; the embedder borrows it. */
export class EmbeddingModel {
  readonly model: Model
  readonly context: EmbeddingContext
  readonly info: ModelInfo
  readonly offload: OffloadReport
  readonly compute: Compute
  readonly threads: number

  /**
   * @param begins called before each stage of loading, which blocks.
   * @throws Error that names the file that does not load.
   */
  constructor(
    { llama, devices, kernels }: NativeLibraries,
    settings: EngineSettings,
    embedding: EmbeddingSettings,
    begins: (stage: LoadStage) => void,
  ) {
    begins('weights')
    const gpu = settings.gpu ?? ALL_LAYERS
    const offload = planOffload(devices, gpu)
    const params = { ...offload.modelParams, use_extra_bufts: repacksWeights(kernels, settings.hasExperts) }
    this.model = withHint(offload, () => new Model(llama, settings.model, [], params))
    this.compute = computeOf(offload, kernels !== null)
    this.offload = reportOf(offload, false)
    this.threads = settings.threads ?? usefulThreads(bytesOfCpu(offload, gpu.weights), availableParallelism(), 'media')
    begins('cache')
    const contextTokens = Math.min(settings.cells, this.model.trainedContextTokens)
    const options = {
      ...embedding,
      contextTokens,
      batchRows: this.compute.batchRows,
      sequences: settings.maxSequences,
      threads: this.threads,
    }
    this.context = withHint(offload, () => new EmbeddingContext(llama, this.model, options))
    this.info = {
      contextTokens,
      longestTokenBytes: this.model.longestTokenBytes,
      chatTemplate: null,
      bosToken: this.model.bosToken,
      eosToken: this.model.eosToken,
      modalities: { image: false, audio: false },
      embedding: { dimensions: this.context.dimensions },
    }
  }

  /** Computes a text, so that memory is allocated. @returns ms of a row, and of the longest call. */
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
