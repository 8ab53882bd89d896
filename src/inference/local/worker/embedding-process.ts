import { constants, setPriority } from 'node:os'
import type { EmbedWork } from '../../contract/work.ts'
import { unpack } from '../envelope.ts'
import { toFailure } from '../failure.ts'
import { SPIN_AFTER_PAUSES_NS } from '../native/spin.ts'
import type { EmbeddingSettings, EngineSettings, FromEngine, LoadStage, ToEngine } from '../protocol.ts'
import { invalid } from '../scheduler/admission.ts'
import { Embedder } from '../scheduler/embedding/embedder.ts'
import { EmbeddingModel } from '../scheduler/embedding/embedding-model.ts'
import { numericsOf } from './numerics.ts'
import { openLibraries } from './open-libraries.ts'

/** The engine process's side of a model that makes vectors or scores. */
export class EmbeddingProcess {
  readonly #embedder: Embedder
  readonly #preparing = new Map<number, AbortController>()
  readonly #send: (message: FromEngine) => void

  constructor(
    settings: EngineSettings,
    embedding: EmbeddingSettings,
    compiledKernels: boolean,
    send: (message: FromEngine) => void,
  ) {
    this.#send = send
    const report = (stage: LoadStage) => send({ type: 'loading', stage })
    report('libraries')
    const { paths, libraries } = openLibraries(settings, compiledKernels, SPIN_AFTER_PAUSES_NS)
    let loaded: EmbeddingModel
    try {
      loaded = new EmbeddingModel(libraries, settings, embedding, report)
      report('warm-up')
      const { rowMs, longestMs } = loaded.warmUp()
      this.#embedder = new Embedder(loaded, { maxWaiting: settings.maxWaiting, rowMs }, send)
      const features = libraries.processorFeatures()
      send({
        type: 'ready',
        info: loaded.info,
        kernels: {
          compiled: libraries.kernels !== null,
          level: paths.kernelLevel,
          features,
          threads: loaded.threads,
        },
        offload: loaded.offload,
        numerics: numericsOf(settings, paths, { libraries, features, loaded }),
        longestStepMs: longestMs,
        longestEncodeMs: 0,
        times: { stepMs: rowMs, promptRowMs: rowMs },
      })
    } catch (error) {
      libraries.flushLog()
      throw error
    }
    // Chats on the same cores come first: someone waits for each of their tokens.
    setPriority(constants.priority.PRIORITY_BELOW_NORMAL)
  }

  handle(message: ToEngine & { readonly id: number }): void {
    const { id } = message
    if (message.type === 'embed') this.#embed(id, unpack<EmbedWork>(message.work), message.traced)
    else if (message.type === 'abort') {
      this.#preparing.get(id)?.abort()
      this.#preparing.delete(id)
      this.#embedder.abort(id)
    } else if (message.type === 'stats') this.#send({ type: 'stats', id, stats: this.#embedder.stats })
    else throw invalid('This model makes embeddings and writes no text.', 'model')
  }

  async close(): Promise<void> {}

  #embed(id: number, work: EmbedWork, traced: boolean): void {
    const controller = new AbortController()
    this.#preparing.set(id, controller)
    this.#embedder
      .admit(work, controller.signal)
      .then((inputs) => this.#embedder.submit(id, work, inputs, traced))
      .catch((error) => {
        if (!controller.signal.aborted) this.#send({ type: 'error', id, error: toFailure(error) })
      })
      .finally(() => this.#preparing.delete(id))
  }
}
