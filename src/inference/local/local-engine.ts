import { stat } from 'node:fs/promises'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { modelOverloaded } from '../../errors.ts'
import type { ModelCard } from '../../models/card.ts'
import type { Engine, EngineState, Generation, ModelInfo, PromptPart, Work } from '../engine.ts'
import { EngineChild } from './engine-child.ts'
import { HeartbeatMonitor, silenceLimit } from './heartbeat.ts'
import { locateNativeLibraries } from './native-paths.ts'
import { PendingCalls } from './pending-calls.ts'
import type { EngineSettings, EngineStats, FromEngine } from './protocol.ts'

export interface LocalEngineOptions {
  /** Threads for encoding and decoding; by default as many as the size of the weights is worth. */
  readonly threads?: number
  /** Requests that may wait for their first completion to start, before new ones are refused. */
  readonly maxWaiting?: number
  /** Cells that ended work may leave in the prefix cache, for later requests that begin alike; 0 for none. */
  readonly prefixCacheCells?: number
  /** Silence of the engine process, in ms, after which it counts as hung and is restarted. */
  readonly silenceLimitMs?: number
  /** Makes sampling repeatable, for tests. */
  readonly seed?: number
  /** Where the engine says what it does. Lines hold no text of users. */
  readonly logger?: EngineLogger
}

export interface EngineLogger {
  debug(message: string): void
  warn(message: string): void
  error(message: string): void
}

const DEFAULT_MAX_WAITING = 128
/** Of the number of KV cells; the copies that the prefix cache holds are not among these. */
const PREFIX_CACHE_SHARE = 1 / 2
/**
 * llama.cpp's threads meet after every operation and wait for each other busily. With less work than this for each
 * thread they gain nothing on an idle machine, and on a busy one every meeting waits for the operating system.
 */
const WEIGHT_BYTES_PER_THREAD = 32 * 2 ** 20
/** Pause before the first restart, in ms; doubled with every further one that fails or does not last. */
const FIRST_RESTART_PAUSE_MS = 250
const LONGEST_RESTART_PAUSE_MS = 30_000
/** A process that lived this long did last. */
const STABLE_AFTER_MS = 60_000
const SILENT: EngineLogger = { debug() {}, warn() {}, error() {} }

/** Runs a model by llama.cpp in a process of its own, and starts that process again when it dies. */
export class LocalEngine implements Engine {
  readonly #settings: EngineSettings
  readonly #logger: EngineLogger
  /** Null for one that is measured. */
  readonly #silenceLimitMs: number | null
  readonly #calls = new PendingCalls()
  #child: EngineChild | null = null
  #monitor: HeartbeatMonitor | null = null
  #state: EngineState = 'starting'
  #info: ModelInfo | null = null
  #failedRestarts = 0
  #restartTimer: NodeJS.Timeout | null = null
  /** Milliseconds from a start to readiness, last time. */
  #startDurationMs = 1000

  /**
   * Loads the card's model and warms it up.
   * @throws Error that says what is missing or wrong, and what to do about it.
   */
  static async start(card: ModelCard, options: LocalEngineOptions = {}): Promise<LocalEngine> {
    locateNativeLibraries()
    const settings = await readSettings(card, options)
    const engine = new LocalEngine(settings, options)
    try {
      const info = await engine.#launch()
      checkPromises(card, info)
      return engine
    } catch (error) {
      await engine.close()
      throw error
    }
  }

  private constructor(settings: EngineSettings, options: LocalEngineOptions) {
    this.#settings = settings
    this.#logger = options.logger ?? SILENT
    this.#silenceLimitMs = options.silenceLimitMs ?? null
  }

  get info(): ModelInfo {
    if (this.#info === null) throw new Error('The engine is not ready.')
    return this.#info
  }

  get state(): EngineState {
    return this.#state
  }

  /** Of the engine process, while there is one. */
  get pid(): number | undefined {
    return this.#child?.pid
  }

  async generate(work: Work, signal: AbortSignal): Promise<Generation> {
    signal.throwIfAborted()
    const child = this.#readyChild()
    const { id, admitted } = this.#calls.addGeneration(signal, (id) => child.send({ type: 'abort', id }))
    child.send({ type: 'generate', id, work })
    return admitted
  }

  async countTokens(parts: readonly PromptPart[]): Promise<number> {
    const child = this.#readyChild()
    const { id, tokens } = this.#calls.addCount()
    child.send({ type: 'count', id, parts })
    return tokens
  }

  /** What the engine does right now, and what it did since its process started. */
  async stats(): Promise<EngineStats> {
    const child = this.#readyChild()
    const { id, stats } = this.#calls.addStats()
    child.send({ type: 'stats', id })
    return stats
  }

  async close(): Promise<void> {
    this.#state = 'closed'
    if (this.#restartTimer !== null) clearTimeout(this.#restartTimer)
    this.#monitor?.stop()
    const child = this.#child
    this.#child = null
    this.#calls.failAll(modelOverloaded('The service is shutting down.', 1))
    await child?.close()
  }

  #readyChild(): EngineChild {
    if (this.#state === 'ready' && this.#child !== null) return this.#child
    if (this.#state === 'closed') throw modelOverloaded('The service is shutting down.', 1)
    throw modelOverloaded('The model is being restarted. Try again shortly.', this.#retryAfter())
  }

  #retryAfter(): number {
    return Math.max(1, Math.ceil((this.#restartPause() + this.#startDurationMs) / 1000))
  }

  #restartPause(): number {
    return Math.min(LONGEST_RESTART_PAUSE_MS, FIRST_RESTART_PAUSE_MS * 2 ** this.#failedRestarts)
  }

  /** Starts a process; resolves when it is ready, and from then on restarts it when it ends. */
  #launch(): Promise<ModelInfo> {
    const started = performance.now()
    const { promise, resolve, reject } = Promise.withResolvers<ModelInfo>()
    let readyAt: number | null = null
    let failure = ''
    const child = new EngineChild({
      log: (line) => this.#logger.debug(line),
      message: (message: FromEngine) => {
        this.#monitor?.beat()
        if (message.type === 'failed') failure = message.message
        else if (message.type === 'ready') {
          readyAt = performance.now()
          this.#startDurationMs = readyAt - started
          this.#info ??= message.info
          this.#state = 'ready'
          const limitMs = this.#silenceLimitMs ?? silenceLimit(message.longestStepMs)
          this.#monitor = new HeartbeatMonitor(limitMs, () => {
            this.#logger.error(`The engine process has not answered for ${limitMs} ms and is ended.`)
            child.kill()
          })
          resolve(message.info)
        } else if (message.type === 'heartbeat') return
        else if (message.type === 'events') this.#calls.handleEvents(message.requests)
        else this.#calls.handle(message)
      },
      exit: (reason) => {
        this.#monitor?.stop()
        this.#child = null
        const words = [failure, reason].filter((text) => text !== '').join('\n')
        if (readyAt === null) {
          reject(new Error(words))
          return
        }
        if (performance.now() - readyAt > STABLE_AFTER_MS) this.#failedRestarts = 0
        this.#logger.error(words)
        this.#restart()
      },
    })
    this.#child = child
    child.send({ type: 'load', settings: this.#settings })
    return promise
  }

  #restart(): void {
    if (this.#state === 'closed') return
    this.#state = 'restarting'
    const pause = this.#restartPause()
    this.#calls.failAll(modelOverloaded('The model stopped unexpectedly and is being restarted.', this.#retryAfter()))
    this.#failedRestarts++
    this.#restartTimer = setTimeout(() => {
      this.#launch().then(
        () => this.#logger.warn('The engine is running again.'),
        (error: Error) => {
          this.#logger.error(error.message)
          this.#restart()
        },
      )
    }, pause)
  }
}

async function readSettings(card: ModelCard, options: LocalEngineOptions): Promise<EngineSettings> {
  const { model, projector } = card.engine
  const files = [model, projector].filter((name) => name !== undefined).map((name) => join(card.directory, name))
  const sizes = await Promise.all(
    files.map(async (path) => {
      const { size } = await stat(path).catch(() => {
        throw new Error(`The model card of ${card.name} names the file ${path}, which is not there.`)
      })
      return size
    }),
  )
  const worthwhile = Math.ceil(sizes.reduce((sum, size) => sum + size, 0) / WEIGHT_BYTES_PER_THREAD)
  return {
    model: files[0]!,
    projector: files[1] ?? null,
    cells: card.engine.contextTokens,
    maxSequences: card.engine.maxSequences,
    image: card.image ?? null,
    threads: options.threads ?? Math.min(availableParallelism(), worthwhile),
    prefixCacheCells: options.prefixCacheCells ?? Math.floor(card.engine.contextTokens * PREFIX_CACHE_SHARE),
    maxWaiting: options.maxWaiting ?? DEFAULT_MAX_WAITING,
    seed: options.seed ?? null,
  }
}

/** A card must not promise clients what the loaded model cannot do. */
function checkPromises(card: ModelCard, info: ModelInfo): void {
  for (const { id, maxContextTokens } of card.serves) {
    if (maxContextTokens <= info.contextTokens) continue
    throw new Error(
      `The model card of ${card.name} promises ${maxContextTokens} context tokens for "${id}", but the engine has ` +
        `${info.contextTokens}: the smaller of the card's engine.contextTokens and what the model was trained for.`,
    )
  }
  if (card.image !== undefined && !info.modalities.image) {
    throw new Error(`The model card of ${card.name} has image limits, but its files hold no image encoder.`)
  }
}
