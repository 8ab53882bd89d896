/**
 * Entry point of the engine process: one model, driven by messages from the API process. A crash in native code ends only
 * this process.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { releaseMemoryWhenIdle } from '../../../lib/guarded/memory.ts'
import type { PromptPart } from '../../contract/parts.ts'
import type { Branch, ReadWork, Work } from '../../contract/work.ts'
import { unpack } from '../envelope.ts'
import { toFailure } from '../failure.ts'
import { HEARTBEAT_MS } from '../heartbeat.ts'
import {
  type CountedPrompt,
  type EngineSettings,
  type FromEngine,
  type LoadStage,
  SHARED_FILE,
  type ToEngine,
} from '../protocol.ts'
import { admit, contextExceeded } from '../scheduler/admission.ts'
import { LoadedModel } from '../scheduler/loaded-model.ts'
import { Scheduler } from '../scheduler/scheduler.ts'
import { ReplyScorer } from '../scheduler/scoring/reply-scorer.ts'
import { EmbeddingProcess } from './embedding-process.ts'
import { Inbox } from './inbox.ts'
import { numericsOf } from './numerics.ts'
import { openDisk } from './open-disk.ts'
import { openLibraries } from './open-libraries.ts'
import { type WarmUp, warmUp } from './warm-up.ts'

/** Less than the API process's grace period of two seconds. */
const CLOSE_MS = 1500

/** Owns the loaded model, its scheduler, and the requests that are being prepared. Messages drive it. */
class EngineProcess {
  readonly #loaded: LoadedModel
  readonly #scheduler: Scheduler
  readonly #scorer: ReplyScorer
  /** Requests whose constraints, texts or media are being prepared. */
  readonly #preparing = new Map<number, AbortController>()

  constructor(settings: EngineSettings, compiledKernels: boolean) {
    let warm: WarmUp
    const report = (stage: LoadStage) => send({ type: 'loading', stage })
    report('libraries')
    const { paths, libraries } = openLibraries(settings, compiledKernels)
    try {
      this.#loaded = new LoadedModel(libraries, settings, report)
      report('warm-up')
      warm = warmUp(this.#loaded, settings, () => report('warm-up'))
    } catch (error) {
      // The library's log explains the error.
      libraries.flushLog()
      throw error
    }
    const features = libraries.processorFeatures()
    const numerics = numericsOf(settings, paths, { libraries, features, loaded: this.#loaded })
    const disk = openDisk(settings, numerics)
    this.#scheduler = new Scheduler(this.#loaded, warm.splitter, settings, send, {
      disk,
      receive: (until) => inbox.receive(until),
      encodesAside: this.#loaded.encodesAside,
    })
    const scoring = { rowMs: warm.splitter.rowMs, isBatchInvariant: numerics.isInvariant }
    this.#scorer = new ReplyScorer(this.#loaded, scoring, this.#scheduler.reuse, send)
    this.#scheduler.attach(this.#scorer)
    const { longestStepMs, longestEncodeMs } = warm
    const kernels = {
      compiled: libraries.kernels !== null,
      level: paths.kernelLevel,
      features,
      threads: this.#loaded.context.threads,
    }
    const { info, offload } = this.#loaded
    const times = { stepMs: warm.splitter.batchMs(1), promptRowMs: warm.splitter.rowMs }
    send({ type: 'ready', info, kernels, offload, numerics, longestStepMs, longestEncodeMs, times })
  }

  /** Writes retained prefixes to disk until the time is up. */
  async close(): Promise<void> {
    await Promise.race([this.#scheduler.close(CLOSE_MS / 2), delay(CLOSE_MS)])
  }

  /** An error that it throws fails only this message. */
  handle(message: ForEngine): void {
    if (message.type === 'generate') this.#generate(message.id, unpack<Work>(message.work), message.traced)
    else if (message.type === 'read') this.#read(message.id, unpack<ReadWork>(message.work), message.traced)
    else if (message.type === 'abort') {
      this.#preparing.get(message.id)?.abort()
      this.#preparing.delete(message.id)
      this.#scheduler.abort(message.id)
    } else if (message.type === 'stats') send({ type: 'stats', id: message.id, stats: this.#scheduler.stats })
    else if (message.type === 'measure') this.#measure(message.id, unpack<Work>(message.work))
    else if (message.type === 'count') this.#count(message.id, unpack<CountedPrompt>(message.prompt))
  }

  #count(id: number, { parts, organisation }: CountedPrompt): void {
    const { reader, info } = this.#loaded
    this.#prepare(id, async (signal) => {
      const fits = await reader.prepare(parts, organisation, info.contextTokens, signal)
      return () => {
        const tokens = fits ? reader.count(parts, organisation) : Number.POSITIVE_INFINITY
        send({ type: 'counted', id, tokens })
      }
    })
  }

  /**
   * Submits work once its constraints are compiled, its long texts tokenised and its media hashed. Other work is submitted at
   * once, in order of arrival.
   */
  #generate(id: number, work: Work, traced: boolean): void {
    const check = () => this.#scheduler.checkQueue(work.priority)
    this.#prepareWork(id, work, () => this.#scheduler.submit(id, work, traced), check)
  }

  /** Submits a read once it is prepared. */
  #read(id: number, work: ReadWork, traced: boolean): void {
    this.#prepare(id, async (signal) => {
      this.#scheduler.checkQueue(work.priority)
      await this.#prepareTexts(promptsOf(work.prefix, work.questions), work.organisation, signal)
      const admitted = await this.#scorer.admit(work, signal)
      return () => {
        try {
          this.#scheduler.checkQueue(work.priority)
        } catch (error) {
          admitted.close()
          throw error
        }
        const { organisation, priority, isTransient } = work
        this.#scorer.submit({ id, organisation, priority, isTransient }, admitted, traced)
        this.#scheduler.wake()
      }
    })
  }

  /** Admits work by its sizes alone, and discards it. */
  #measure(id: number, work: Work): void {
    this.#prepareWork(id, work, () => {
      try {
        const { usage, close } = admit(this.#loaded, work, { sizesOnly: true })
        close()
        send({ type: 'measured', id, prompts: usage })
      } catch (error) {
        send({ type: 'error', id, error: toFailure(error) })
      }
    })
  }

  /** @param check throws if preparation would be useless. */
  #prepareWork(id: number, work: Work, next: () => void, check = () => {}): void {
    const { reader, constraints } = this.#loaded
    const prompts = promptsOf(work.prefix, work.branches)
    const bound = work.branches.flatMap(({ constraint }) => constraint ?? [])
    if (bound.length === 0 && !prompts.some(({ parts }) => reader.needsPreparation(parts))) {
      next()
      return
    }
    this.#prepare(id, async (signal) => {
      check()
      await this.#prepareTexts(prompts, work.organisation, signal)
      await Promise.all(bound.map((constraint) => constraints.prepare(constraint, work.organisation)))
      return next
    })
  }

  async #prepareTexts(prompts: readonly RawPrompt[], organisation: string, signal: AbortSignal): Promise<void> {
    const { reader, info } = this.#loaded
    for (const [index, { parts, param }] of prompts.entries()) {
      const follows = index > 0 && prompts[0]!.parts.length > 0
      const fits = await reader.prepare(parts, organisation, info.contextTokens, signal, follows)
      if (!fits) throw contextExceeded(info.contextTokens, param)
    }
  }

  /** Calls the function that `prepare` resolves to, unless the request was aborted in the meantime. */
  #prepare(id: number, prepare: (signal: AbortSignal) => Promise<() => void>): void {
    const controller = new AbortController()
    const { signal } = controller
    this.#preparing.set(id, controller)
    prepare(signal)
      .then((next) => {
        this.#preparing.delete(id)
        if (!signal.aborted) next()
      })
      .catch((error) => {
        this.#preparing.delete(id)
        if (!signal.aborted) send({ type: 'error', id, error: toFailure(error) })
      })
  }
}

interface RawPrompt {
  readonly parts: readonly PromptPart[]
  readonly param: string | undefined
}

function promptsOf(prefix: Work['prefix'], suffixes: readonly Pick<Branch, 'suffix' | 'param'>[]): RawPrompt[] {
  return [
    { parts: prefix, param: suffixes[0]?.param },
    ...suffixes.map(({ suffix, param }) => ({ parts: suffix, param })),
  ]
}

function send(message: FromEngine): void {
  process.send?.(message)
}

// Ctrl-C in a terminal reaches the whole process group, and a service manager may send SIGTERM to every process of the
// service. The API process decides when the engine ends: replies may be under way.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {})
process.on('disconnect', () => process.exit(0))
releaseMemoryWhenIdle()

const inbox = new Inbox(SHARED_FILE)
let engine: EngineProcess | EmbeddingProcess | null = null
process.on('message', (message: ToEngine) => {
  if (message.type === 'close') {
    void Promise.resolve(engine?.close()).finally(() => process.exit(0))
    return
  }
  if (message.type === 'load') {
    load(message.settings, message.compiledKernels)
    return
  }
  if (message.type === 'shared') void receive(message)
  else handle(message)
})

async function receive(shared: Extract<ToEngine, { readonly type: 'shared' }>): Promise<void> {
  let message: ToEngine | null
  try {
    message = await inbox.take(shared)
  } catch (error) {
    send({ type: 'error', id: shared.id, error: toFailure(error) })
    return
  } finally {
    send({ type: 'received' })
  }
  if (message !== null) handle(message as ForEngine)
}

type ForEngine = Exclude<ToEngine, { readonly type: 'close' | 'load' | 'shared' }>

function handle(message: ForEngine): void {
  try {
    if (engine === null) throw new Error('The engine is not loaded.')
    if (message.type === 'abort') inbox.drop(message.id)
    engine.handle(message)
  } catch (error) {
    send({ type: 'error', id: message.id, error: toFailure(error) })
  }
}

function load(settings: EngineSettings, compiledKernels: boolean): void {
  try {
    const { embedding } = settings
    engine =
      embedding === undefined
        ? new EngineProcess(settings, compiledKernels)
        : new EmbeddingProcess(settings, embedding, compiledKernels, send)
    setInterval(() => send({ type: 'heartbeat' }), HEARTBEAT_MS)
  } catch (error) {
    send({ type: 'failed', message: error instanceof Error ? error.message : String(error) })
    process.disconnect()
  }
}
