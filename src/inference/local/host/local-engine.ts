import { availableParallelism } from 'node:os'
import { modelOverloaded, tryAgainIn } from '../../../lib/errors.ts'
import type { ModelCard } from '../../../models/card.ts'
import type {
  CountOptions,
  Engine,
  EngineState,
  EngineStats,
  Generation,
  ModelInfo,
  PromptPart,
  Work,
} from '../../engine.ts'
import { HeartbeatMonitor, loadSilenceLimit, silenceLimit } from '../heartbeat.ts'
import { locateNativeLibraries } from '../native/native-paths.ts'
import type { EngineSettings, FromEngine, LoadStage, ToEngine } from '../protocol.ts'
import { EngineChild } from './engine-child.ts'
import { checkPromises, findModelFiles, readChatTemplate } from './model-files.ts'
import { packPrompt, packWork } from './outgoing.ts'
import { PendingCalls } from './pending-calls.ts'
import { RestartPause } from './restart-pause.ts'

export interface LocalEngineOptions {
  /** Threads for encoding and decoding; by default as many as the size of the weights is worth. */
  readonly threads?: number
  /** Requests that may wait for their first completion to start, before new ones are refused. The card's number wins. */
  readonly maxWaiting?: number
  /** Cells that ended work may leave in the prefix cache, for later requests that begin alike; 0 for none. */
  readonly prefixCacheCells?: number
  /** Silence of the engine process, in ms, after which it counts as hung and is restarted. */
  readonly silenceLimitMs?: number
  /** The same while the model is being loaded, when it tells of every stage; by default by the size of its weights. */
  readonly loadSilenceLimitMs?: number
  /** Makes sampling repeatable, for tests. */
  readonly seed?: number
  /** Where the engine says what it does. Lines hold no text of users. */
  readonly logger?: EngineLogger
  /** Called whenever the process has ended by itself, and is to be started again. */
  readonly onRestart?: () => void
  /** Ends a start that nobody waits for any more. */
  readonly signal?: AbortSignal
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
const SILENT: EngineLogger = { debug() {}, warn() {}, error() {} }

/** Runs a model by llama.cpp in a process of its own, and starts that process again when it dies. */
export class LocalEngine implements Engine {
  readonly #settings: LoadSettings
  readonly #options: LocalEngineOptions
  readonly #logger: EngineLogger
  readonly #calls = new PendingCalls()
  #child: EngineChild | null = null
  #monitor: HeartbeatMonitor | null = null
  #state: EngineState = 'starting'
  #info: ModelInfo | null = null
  readonly #restartPause = new RestartPause()
  /** When the next process should be ready, by `performance.now()`. */
  #readyAgainAt = 0
  #restartTimer: NodeJS.Timeout | null = null
  /** Milliseconds from a start to readiness, last time. */
  #startDurationMs = 1000

  /**
   * Loads the card's model and warms it up.
   * @throws Error that says what is missing or wrong, and what to do about it.
   */
  static async start(card: ModelCard, options: LocalEngineOptions = {}): Promise<LocalEngine> {
    locateNativeLibraries()
    const { signal } = options
    signal?.throwIfAborted()
    const engine = new LocalEngine(await readSettings(card, options), options)
    signal?.throwIfAborted()
    try {
      const info = await engine.#launch(signal)
      checkPromises(card, info)
      return engine
    } catch (error) {
      await engine.close()
      throw error
    }
  }

  private constructor(settings: LoadSettings, options: LocalEngineOptions) {
    this.#settings = settings
    this.#options = options
    this.#logger = options.logger ?? SILENT
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
    // What no message can hold must not be waited for.
    const packed = packWork(work)
    const { id, admitted } = this.#calls.addGeneration(signal, (id) => child.send({ type: 'abort', id }))
    this.#send(child, { type: 'generate', id, work: packed })
    return admitted
  }

  async countTokens(parts: readonly PromptPart[], { organisation, signal }: CountOptions): Promise<number> {
    signal.throwIfAborted()
    const child = this.#readyChild()
    const prompt = packPrompt(parts, organisation)
    const { id, tokens } = this.#calls.addCount(signal, (id) => child.send({ type: 'abort', id }))
    this.#send(child, { type: 'count', id, prompt })
    return tokens
  }

  /** What the engine does right now, and what it did since its process started. */
  async stats(): Promise<EngineStats> {
    const child = this.#readyChild()
    const { id, stats } = this.#calls.addStats()
    this.#send(child, { type: 'stats', id })
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
    throw this.#refusal('The model is being restarted.')
  }

  #send(child: EngineChild, message: ToEngine & { readonly id: number }): void {
    try {
      child.send(message)
    } catch (error) {
      this.#calls.fail(message.id, error)
    }
  }

  #refusal(message: string): Error {
    const seconds = Math.max(1, (this.#readyAgainAt - performance.now()) / 1000)
    return modelOverloaded(`${message} ${tryAgainIn(seconds)}`, seconds)
  }

  /**
   * Starts a process; resolves when it is ready, and from then on restarts it when it ends.
   * @throws Error when it ends, or tells of no progress, before that.
   */
  async #launch(signal?: AbortSignal): Promise<ModelInfo> {
    const started = performance.now()
    const { promise, resolve, reject } = Promise.withResolvers<ModelInfo>()
    let readyAt: number | null = null
    let servedRequests = 0
    let failure = ''
    let stage: LoadStage = 'libraries'
    const child = new EngineChild({
      log: (line) => this.#logger.debug(line),
      message: (message: FromEngine) => {
        this.#monitor?.beat()
        if (message.type === 'loading') {
          stage = message.stage
          this.#logger.debug(`loading: ${stage}`)
        } else if (message.type === 'failed') failure = message.message
        else if (message.type === 'ready') {
          readyAt = performance.now()
          this.#startDurationMs = readyAt - started
          this.#info ??= { ...message.info, chatTemplate: this.#settings.chatTemplate ?? message.info.chatTemplate }
          this.#state = 'ready'
          const limitMs = this.#options.silenceLimitMs ?? silenceLimit(message.longestStepMs)
          watch(limitMs, () => `The engine process has not answered for ${limitMs} ms and is ended.`)
          resolve(this.#info)
        } else if (message.type === 'heartbeat') return
        else if (message.type === 'events') {
          servedRequests += message.requests.filter(({ last }) => last).length
          this.#calls.handleEvents(message.requests)
        } else this.#calls.handle(message)
      },
      exit: (reason) => {
        this.#monitor?.stop()
        this.#child = null
        const words = [failure, reason].filter((text) => text !== '').join('\n')
        if (readyAt === null) {
          reject(new Error(words))
          return
        }
        this.#logger.error(words)
        this.#restart({ ms: performance.now() - readyAt, servedRequests })
      },
    })
    const watch = (limitMs: number, complaint: () => string) => {
      this.#monitor?.stop()
      this.#monitor = new HeartbeatMonitor(limitMs, () => {
        failure = complaint()
        child.kill()
      })
    }
    this.#child = child
    const { engine, weightBytes } = this.#settings
    const limitMs = this.#options.loadSilenceLimitMs ?? loadSilenceLimit(weightBytes)
    watch(limitMs, () => `The engine process made no progress for ${limitMs} ms while loading (${stage}) and is ended.`)
    child.send({ type: 'load', settings: engine })
    const abandon = () => reject(signal?.reason)
    signal?.addEventListener('abort', abandon)
    return promise.finally(() => signal?.removeEventListener('abort', abandon))
  }

  /** @param life of the process that ended, from its readiness on. */
  #restart(life: { readonly ms: number; readonly servedRequests: number }): void {
    if (this.#state === 'closed') return
    this.#state = 'restarting'
    this.#options.onRestart?.()
    const pause = this.#restartPause.next(life)
    this.#readyAgainAt = performance.now() + pause + this.#startDurationMs
    this.#calls.failAll(this.#refusal('The model stopped unexpectedly and is being restarted.'))
    this.#restartTimer = setTimeout(() => {
      this.#launch().then(
        () => this.#logger.warn('The engine is running again.'),
        (error: Error) => {
          this.#logger.error(error.message)
          this.#restart({ ms: 0, servedRequests: 0 })
        },
      )
    }, pause)
  }
}

interface LoadSettings {
  readonly engine: EngineSettings
  readonly weightBytes: number
  /** Null for the one in the weights. */
  readonly chatTemplate: string | null
}

async function readSettings(card: ModelCard, options: LocalEngineOptions): Promise<LoadSettings> {
  const { model, projector } = await findModelFiles(card)
  const weightBytes = model.bytes + (projector?.bytes ?? 0)
  const worthwhile = Math.ceil(weightBytes / WEIGHT_BYTES_PER_THREAD)
  const engine = {
    model: model.path,
    projector: projector?.path ?? null,
    cells: card.engine.contextTokens,
    maxSequences: card.engine.maxSequences,
    printedTokens: card.engine.printedTokens,
    repetition: card.engine.repetition,
    image: pictureLimits(card),
    threads: options.threads ?? card.engine.threads ?? Math.min(availableParallelism(), worthwhile),
    prefixCacheCells: options.prefixCacheCells ?? Math.floor(card.engine.contextTokens * PREFIX_CACHE_SHARE),
    maxWaiting: card.engine.queueLength ?? options.maxWaiting ?? DEFAULT_MAX_WAITING,
    seed: options.seed ?? null,
  }
  return { engine, weightBytes, chatTemplate: await readChatTemplate(card) }
}

/** Of still pictures and of frames: the library has one pair of limits for both. */
function pictureLimits({ image, video }: ModelCard): EngineSettings['image'] {
  if (image === undefined || video === undefined) return image ?? video ?? null
  return {
    pixelsPerToken: image.pixelsPerToken,
    minTokens: Math.min(image.minTokens, video.minTokens),
    maxTokens: Math.max(image.maxTokens, video.maxTokens),
  }
}
