import type { MediaSource } from '../conversation/prompt/media-parts.ts'
import type { ModelCatalog } from '../inference/catalog/model-catalog.ts'
import type { ServedModel } from '../inference/catalog/registry.ts'
import type { Engine } from '../inference/contract/engine.ts'
import { tellOnce } from '../lib/tell-once.ts'
import { isUnderWay, type KeptExamination, keepExamination, readExamination } from '../models/kept-examination.ts'
import { BackgroundEngine } from './background-engine.ts'
import { Unavailable } from './examination.ts'
import { placesWarning } from './finding.ts'
import { ended, keepExamining, newExamination, Superseded } from './keep.ts'

export interface ExaminerOptions {
  readonly models: Pick<ModelCatalog, 'list' | 'find' | 'isStored'>
  readonly media: MediaSource
  readonly pool: {
    /** Whether the model is in memory, or fits there beside the loaded ones. */
    hasRoomFor(engine: Engine): boolean
    /** Frees the memory of a model that no client has used. */
    unloadUnused(engine: Engine): Promise<void>
  }
  readonly logger: { info(message: string): void; warn(message: string): void }
}

/** Memory may become free without a notification. */
const LOOK_MS = 5_000
/** The stored examination is read at most once in this time, for any number of clients. */
const READ_MS = 1_000

const NO_ROOM = 'It waits until the model has room in memory beside those that are loaded, or a request loads it.'

class Skipped extends Error {}
class Crowded extends Error {}

interface Job {
  readonly model: ServedModel
  examination: KeptExamination
  readonly stop: AbortController
}

/**
 * Examines models of the store while a server runs, one at a time, behind the requests of its clients. The findings are
 * stored beside their cards.
 */
export class Examiner {
  readonly #options: ExaminerOptions
  /** In the order of the requests, by card. */
  readonly #jobs = new Map<string, Job>()
  readonly #read = new Map<string, { readonly at: number; readonly kept: Promise<KeptExamination | null> }>()
  readonly #warnOnce: (problem: string) => void
  readonly #closing = new AbortController()
  #current: { readonly job: Job; readonly yielding: AbortController } | null = null
  #working: Promise<void> | null = null
  #poked = Promise.withResolvers<void>()

  constructor(options: ExaminerOptions) {
    this.#options = options
    this.#warnOnce = tellOnce((problem) => options.logger.warn(problem))
  }

  /** Examines a stored model from the beginning, when its turn comes. */
  async start(model: ServedModel): Promise<KeptExamination> {
    const { file } = model.card
    this.#jobs.get(file)?.stop.abort(new Superseded())
    const job = { model, examination: await newExamination(file), stop: new AbortController() }
    this.#jobs.delete(file)
    this.#jobs.set(file, job)
    await this.#keep(job, job.examination)
    this.#work()
    return job.examination
  }

  /** Ends the examination of a model. @returns the stored examination; null if there is none. */
  async skip(model: ServedModel): Promise<KeptExamination | null> {
    const job = this.#jobs.get(model.card.file)
    if (job !== undefined) {
      this.#jobs.delete(model.card.file)
      job.stop.abort(new Skipped())
      this.poke()
      if (this.#current?.job !== job) await this.#keep(job, ended(job.examination, 'skipped'))
      else await this.#working
    }
    this.#read.delete(model.card.file)
    return this.of(model)
  }

  /** The stored examination of a model; null if it was never examined. */
  of({ card: { file } }: ServedModel): Promise<KeptExamination | null> {
    const known = this.#read.get(file)
    if (known !== undefined && performance.now() - known.at < READ_MS) return known.kept
    const kept = readExamination(file, this.#warnOnce)
    this.#read.set(file, { at: performance.now(), kept })
    return kept
  }

  /** A warning for clients that use the model's answers; null for none. */
  async warningOf(model: ServedModel): Promise<string | null> {
    const kept = await this.of(model)
    return kept === null ? null : placesWarning(kept.findings)
  }

  /** Restarts the examinations that an earlier process of this server did not finish. */
  async resume(): Promise<void> {
    const cards = new Map((await this.#options.models.list()).map((model) => [model.card.file, model]))
    for (const model of cards.values()) {
      if (this.#closing.signal.aborted || !this.#options.models.isStored(model)) continue
      const kept = await this.of(model)
      if (kept === null || kept.finishedAt !== null || isUnderWay(kept)) continue
      await this.start(model)
    }
  }

  /** Checks the free memory again, for the model that is being examined and for those that wait. */
  poke(): void {
    if (this.#current !== null && !this.#hasRoom(this.#current.job)) this.#current.yielding.abort(new Crowded())
    this.#poked.resolve()
    this.#poked = Promise.withResolvers()
  }

  /** Ends the current examination. The next process restarts what is unfinished. */
  async close(): Promise<void> {
    this.#closing.abort(new Superseded())
    this.poke()
    await this.#working
  }

  #hasRoom({ model }: Job): boolean {
    return this.#options.pool.hasRoomFor(model.engine)
  }

  #work(): void {
    this.poke()
    this.#working ??= this.#workOff()
      .catch((error: Error) => this.#options.logger.warn(`Cannot examine models: ${error.message}`))
      .finally(() => {
        this.#working = null
      })
  }

  async #workOff(): Promise<void> {
    while (this.#jobs.size > 0 && !this.#closing.signal.aborted) {
      const poked = this.#poked.promise
      const job = [...this.#jobs.values()].find((one) => this.#hasRoom(one))
      if (job !== undefined) await this.#examine(job)
      else {
        for (const one of this.#jobs.values()) {
          if (one.examination.state === 'running' || one.examination.overall === null)
            await this.#keep(one, { ...one.examination, state: 'waiting', overall: NO_ROOM })
          // The model may have been deleted meanwhile.
          if ((await this.#options.models.find(one.model.id))?.card !== one.model.card) this.#drop(one)
        }
        await Promise.race([poked, new Promise((resolve) => setTimeout(resolve, LOOK_MS).unref())])
      }
    }
  }

  async #examine(job: Job): Promise<void> {
    const { media, pool, logger } = this.#options
    const { card, id, engine: shared } = job.model
    const yielding = new AbortController()
    const engine = new BackgroundEngine(shared, () => this.#hasRoom(job))
    const signal = AbortSignal.any([job.stop.signal, yielding.signal, this.#closing.signal])
    this.#current = { job, yielding }
    try {
      const begun = { ...job.examination, overall: null }
      for await (const kept of keepExamining({ card, engine, media, priority: 'background', begun, signal })) {
        job.examination = kept
        this.#read.delete(card.file)
      }
      logger.info(`Examined ${id}: ${job.examination.overall}`)
      this.#drop(job)
    } catch (error) {
      await this.#endEarly(job, signal.aborted ? (signal.reason as Error) : (error as Error))
    } finally {
      this.#current = null
      await engine.close()
      await pool.unloadUnused(shared)
    }
  }

  async #endEarly(job: Job, reason: Error): Promise<void> {
    const { logger } = this.#options
    const { id, card } = job.model
    if (reason instanceof Crowded || (reason instanceof Unavailable && !this.#hasRoom(job))) {
      await this.#keep(job, { ...job.examination, state: 'waiting', overall: NO_ROOM })
      return
    }
    this.#drop(job)
    if (reason instanceof Superseded || this.#closing.signal.aborted) return
    if (reason instanceof Skipped) await this.#keep(job, ended(job.examination, 'skipped'))
    else {
      logger.warn(`Cannot examine ${id}: ${reason.message}`)
      const remark = 'It could not be examined to the end: see the log of the server.'
      await this.#keep(job, ended(job.examination, 'failed', remark))
    }
    this.#read.delete(card.file)
  }

  /** If the store is read-only, nothing is stored, and the log says so. */
  async #keep(job: Job, examination: KeptExamination): Promise<void> {
    job.examination = examination
    const { file } = job.model.card
    await keepExamination(file, examination).catch((error: Error) =>
      this.#options.logger.warn(`The examination of ${job.model.id} was not saved: ${error.message}`),
    )
    this.#read.delete(file)
  }

  #drop(job: Job): void {
    const { file } = job.model.card
    if (this.#jobs.get(file) === job) this.#jobs.delete(file)
  }
}
