import { basename } from 'node:path'
import { modelOverloaded, tryAgainIn } from '../../../lib/errors/errors.ts'
import { localCard, type ModelCard } from '../../../models/card.ts'
import { checkFiles } from '../../contract/card-checks.ts'
import type { CountOptions, Engine, EngineState, ModelInfo, Numerics } from '../../contract/engine.ts'
import type { Embedding, Generation, Measurement, Reading } from '../../contract/generation.ts'
import { describeOffload, type OffloadReport } from '../../contract/offload.ts'
import type { PromptPart } from '../../contract/parts.ts'
import type { Priority } from '../../contract/priority.ts'
import type { LocalStats } from '../../contract/stats.ts'
import type { EmbedWork, ReadWork, Work } from '../../contract/work.ts'
import { pack } from '../envelope.ts'
import { HeartbeatMonitor, loadSilenceLimit, silenceLimit } from '../heartbeat.ts'
import { locateNativeLibraries } from '../native/native-paths.ts'
import type { KernelsInUse, LoadStage, StepTimes, ToEngine } from '../protocol.ts'
import { EngineChild } from './engine-child.ts'
import { type Library, LibraryChoice } from './library-choice.ts'
import { type LoadOptions, type LoadSettings, readSettings } from './load-settings.ts'
import { packPrompt, packSizes, packWork } from './outgoing.ts'
import { type Answer, type Caller, PendingCalls } from './pending-calls.ts'
import { type Life, RestartPause } from './restart-pause.ts'

export interface LocalEngineOptions extends LoadOptions {
  /** Silence after which the engine process counts as hung and is restarted, in ms. */
  readonly silenceLimitMs?: number
  /** Limit for one stage of loading, in ms; the default depends on the size of the weights. */
  readonly loadSilenceLimitMs?: number
  /** Receives log lines. They contain no text from users. */
  readonly logger?: EngineLogger
  /** Called when a process has started, before it loads the model. */
  readonly onLaunch?: () => void
  /** Called when the process has ended by itself and will be restarted. */
  readonly onRestart?: () => void
  /** Cancels the start. */
  readonly signal?: AbortSignal
}

export interface EngineLogger {
  debug(message: string): void
  info(message: string): void
  warn(message: string): void
  error(message: string): void
}

/** The line that ggml's GPU backends log before they abort. */
const DEVICE_ERROR = /\b(CUDA|ROCm|Vulkan|Metal) error: .*?(?=\.?$)/im
/** CUDA's errors where the backend has no machine code for the GPU and the driver cannot make it. */
const OLD_DRIVER = /unsupported toolchain|no kernel image/
const OLD_DRIVER_HINT =
  'The driver is older than the CUDA of this backend: update it, or have set-up compile the backend (docs/gpu.md).'
const SILENT: EngineLogger = { debug() {}, info() {}, warn() {}, error() {} }

/** Runs a model with llama.cpp in a process of its own, and restarts that process when it ends. */
export class LocalEngine implements Engine {
  readonly #settings: LoadSettings
  readonly #options: LocalEngineOptions
  readonly #logger: EngineLogger
  readonly #calls = new PendingCalls()
  #child: EngineChild | null = null
  #monitor: HeartbeatMonitor | null = null
  #state: EngineState = 'starting'
  #info: ModelInfo | null = null
  #offload: OffloadReport | null = null
  #numerics: Numerics | null = null
  #times: StepTimes | null = null
  readonly #restartPause = new RestartPause()
  readonly #libraries: LibraryChoice
  /** Why a GPU is no longer used; null if the process itself found that there is none. */
  #gpuProblem: string | null = null
  /** When the next process is expected to be ready, by `performance.now()`. */
  #readyAgainAt = 0
  #restartTimer: NodeJS.Timeout | null = null
  /** Duration of the last start until ready, in ms. */
  #startDurationMs = 1000

  /**
   * Loads the card's model and warms it up.
   * @throws Error that says what is wrong and what to do about it.
   */
  static async start(card: ModelCard, options: LocalEngineOptions = {}): Promise<LocalEngine> {
    const { signal } = options
    signal?.throwIfAborted()
    const engine = new LocalEngine(await readSettings(localCard(card), options), options)
    signal?.throwIfAborted()
    try {
      checkFiles(card, await engine.#launchFirst(signal))
      return engine
    } catch (error) {
      await engine.close()
      throw error
    }
  }

  private constructor(settings: LoadSettings, options: LocalEngineOptions) {
    this.#settings = settings
    const { gpu, kernels } = locateNativeLibraries(options.backend)
    this.#libraries = new LibraryChoice([
      ...(gpu.libraries.length > 0 ? (['gpu'] as const) : []),
      ...(kernels !== null ? (['kernels'] as const) : []),
    ])
    this.#options = options
    this.#logger = options.logger ?? SILENT
  }

  get info(): ModelInfo {
    if (this.#info === null) throw new Error('The engine is not ready.')
    return this.#info
  }

  /** Step times from the calibration of the last load. */
  get stepTimes(): StepTimes {
    if (this.#times === null) throw new Error('The engine is not ready.')
    return this.#times
  }

  get state(): EngineState {
    return this.#state
  }

  get offload(): OffloadReport | null {
    return this.#offload
  }

  get numerics(): Numerics | null {
    return this.#numerics
  }

  /** Process id of the engine process; undefined while there is none. */
  get pid(): number | undefined {
    return this.#child?.pid
  }

  async generate(work: Work, signal: AbortSignal): Promise<Generation> {
    signal.throwIfAborted()
    const child = this.#readyChild()
    // Packing may throw, so it comes before the call is registered.
    const { trace, onBegun, ...rest } = work
    const packed = packWork(rest)
    const { id, answer } = this.#calls.addGeneration(callerOf(child, signal, work))
    const traced = trace !== undefined || onBegun !== undefined
    this.#send(child, { type: 'generate', id, work: packed, traced }, work.priority)
    return answer
  }

  async countTokens(parts: readonly PromptPart[], { organisation, signal }: CountOptions): Promise<number> {
    signal.throwIfAborted()
    const child = this.#readyChild()
    const prompt = packPrompt(parts, organisation)
    const read = (message: Answer) => (message.type === 'counted' ? message.tokens : null)
    const { id, answer } = this.#calls.add(read, callerOf(child, signal))
    this.#send(child, { type: 'count', id, prompt })
    return answer
  }

  async measure(work: Work, signal: AbortSignal): Promise<Measurement> {
    signal.throwIfAborted()
    const child = this.#readyChild()
    const packed = packSizes(work)
    const read = (message: Answer) => (message.type === 'measured' ? message.prompts : null)
    const { id, answer } = this.#calls.add(read, callerOf(child, signal))
    this.#send(child, { type: 'measure', id, work: packed })
    return { prompts: await answer, exact: true }
  }

  async read(work: ReadWork, signal: AbortSignal): Promise<Reading> {
    signal.throwIfAborted()
    const child = this.#readyChild()
    const { trace, onBegun, ...rest } = work
    const packed = pack(rest)
    const { id, answer } = this.#calls.addReading(callerOf(child, signal, work))
    const traced = trace !== undefined || onBegun !== undefined
    this.#send(child, { type: 'read', id, work: packed, traced }, work.priority)
    return answer
  }

  async embed(work: EmbedWork, signal: AbortSignal): Promise<Embedding> {
    signal.throwIfAborted()
    const child = this.#readyChild()
    const { trace, onBegun, ...rest } = work
    const packed = pack(rest)
    const { id, answer } = this.#calls.addEmbedding(callerOf(child, signal, work))
    const traced = trace !== undefined || onBegun !== undefined
    this.#send(child, { type: 'embed', id, work: packed, traced }, work.priority)
    return answer
  }

  async stats(): Promise<LocalStats> {
    const child = this.#readyChild()
    const { id, answer } = this.#calls.add((message) => (message.type === 'stats' ? message.stats : null))
    this.#send(child, { type: 'stats', id })
    return answer
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
    throw this.#overloaded('The model is being restarted.')
  }

  #send(child: EngineChild, message: ToEngine & { readonly id: number }, priority?: Priority): void {
    try {
      child.send(message, priority)
    } catch (error) {
      this.#calls.fail(message.id, error)
    }
  }

  #overloaded(message: string): Error {
    const seconds = Math.max(1, (this.#readyAgainAt - performance.now()) / 1000)
    return modelOverloaded(`${message} ${tryAgainIn(seconds)}`, seconds)
  }

  /** Calls `#launch`, and retries without the libraries that crash the process. */
  async #launchFirst(signal?: AbortSignal): Promise<ModelInfo> {
    for (;;) {
      const { count } = this.#libraries
      try {
        return await this.#launch(signal)
      } catch (error) {
        if (this.#libraries.count === count) throw error
      }
    }
  }

  /**
   * Starts a process. Resolves when it is ready; if it ends after that, it is restarted.
   * @throws Error when it ends or stops making progress before it is ready.
   */
  async #launch(signal?: AbortSignal): Promise<ModelInfo> {
    const started = performance.now()
    const { promise, resolve, reject } = Promise.withResolvers<ModelInfo>()
    let readyAt: number | null = null
    let servedRequests = 0
    let failure = ''
    let stage: LoadStage | null = null
    const child = new EngineChild({
      usesDevice: this.#libraries.uses('gpu'),
      log: (line) => this.#logger.debug(line),
      message: (message) => {
        this.#monitor?.beat()
        if (message.type === 'loading') {
          if (message.stage !== stage) this.#logger.debug(`loading: ${message.stage}`)
          stage = message.stage
        } else if (message.type === 'failed') failure = message.message
        else if (message.type === 'ready') {
          readyAt = performance.now()
          this.#startDurationMs = readyAt - started
          this.#info ??= { ...message.info, ...this.#settings.headers }
          this.#offload = { ...message.offload, problem: this.#gpuProblem ?? message.offload.problem }
          this.#numerics = message.numerics
          this.#times = message.times
          this.#state = 'ready'
          this.#logger.info(`computing with ${describeKernels(message.kernels)}; ${message.numerics.fingerprint}`)
          this.#tellOffload(this.#offload)
          const limitMs = this.#options.silenceLimitMs ?? silenceLimit(message.longestStepMs, message.longestEncodeMs)
          const [stepMs, encodeMs] = [message.longestStepMs, message.longestEncodeMs].map(Math.ceil)
          this.#logger.debug(`ready: steps take up to ${stepMs} ms, images up to ${encodeMs} ms`)
          watch(limitMs, () => `The engine process has not answered for ${limitMs} ms; killing it.`)
          resolve(this.#info)
        } else if (message.type === 'heartbeat') return
        else if (message.type === 'events') {
          servedRequests += message.requests.filter(({ last }) => last).length
          this.#calls.handleEvents(message.requests)
        } else {
          if ((message.type === 'answers' || message.type === 'vectors') && message.last) servedRequests++
          this.#calls.handle(message)
        }
      },
      exit: (reason, signal) => {
        this.#monitor?.stop()
        this.#child = null
        const cause = [failure, reason].filter((text) => text !== '').join('\n')
        const life = { ms: readyAt === null ? 0 : performance.now() - readyAt, servedRequests }
        const library = this.#libraries.ended(signal, this.#info === null ? null : life)
        if (library !== null) this.#giveUp(library, `The engine process crashed (${signal})`, cause)
        if (readyAt === null) {
          reject(new Error(cause))
          return
        }
        this.#logger.error(cause)
        this.#restart(life)
      },
    })
    const watch = (limitMs: number, describe: () => string) => {
      this.#monitor?.stop()
      this.#monitor = new HeartbeatMonitor(limitMs, () => {
        failure = describe()
        child.kill()
      })
    }
    this.#child = child
    const { engine, weightBytes } = this.#settings
    const limitMs = this.#options.loadSilenceLimitMs ?? loadSilenceLimit(weightBytes)
    watch(
      limitMs,
      () =>
        `The engine process made no progress for ${limitMs} ms while loading (${stage ?? 'libraries'}); killing it.`,
    )
    child.send({
      type: 'load',
      settings: this.#gpuProblem === null ? engine : { ...engine, backend: 'cpu' },
      compiledKernels: this.#libraries.uses('kernels'),
    })
    this.#options.onLaunch?.()
    const abandon = () => reject(signal?.reason)
    signal?.addEventListener('abort', abandon)
    return promise.finally(() => signal?.removeEventListener('abort', abandon))
  }

  /** @param crash how the process ended. @param log what it wrote before. */
  #giveUp(library: Library, crash: string, log: string): void {
    if (library === 'gpu') {
      const error = DEVICE_ERROR.exec(log)?.[0]
      const hint = error !== undefined && OLD_DRIVER.test(error) ? ` ${OLD_DRIVER_HINT}` : ''
      this.#gpuProblem = `${crash} with a GPU${error === undefined ? '' : ` (${error})`}.${hint} The model runs on the CPU.`
    } else {
      this.#logger.warn(
        `${crash} with Lookout's own kernels. Until the model is loaded again, it runs the prebuilt ones, which are slower.`,
      )
    }
  }

  #tellOffload(offload: OffloadReport): void {
    if (offload.problem !== null) this.#logger.warn(offload.problem)
    const line = `${basename(this.#settings.engine.model)}: ${describeOffload(offload)}`
    this.#logger.info(line)
  }

  /** @param life of the process that ended, from when it was ready. */
  #restart(life: Life): void {
    if (this.#state === 'closed') return
    this.#state = 'restarting'
    this.#options.onRestart?.()
    const pause = this.#restartPause.next(life)
    this.#readyAgainAt = performance.now() + pause + this.#startDurationMs
    this.#calls.failAll(this.#overloaded('The model stopped unexpectedly and is being restarted.'))
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

type Reported = Pick<Work, 'trace' | 'onBegun'>

function callerOf(child: EngineChild, signal: AbortSignal, { trace, onBegun }: Reported = {}): Caller {
  return { signal, abort: (id) => child.send({ type: 'abort', id }), trace, onBegun }
}

function describeKernels({ compiled, level, features, threads }: KernelsInUse): string {
  const ours = level === null ? 'kernels compiled for this processor' : `kernels compiled for ${level}`
  const count = threads === 1 ? '1 thread' : `${threads} threads`
  return `${compiled ? ours : 'prebuilt kernels'} (${features.join(', ')}) on ${count}`
}
