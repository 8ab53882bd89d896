/**
 * Entry point of the engine process: one model, driven by messages from the API process. A crash in native code ends
 * this process only.
 */
import { releaseMemoryWhenIdle } from '../../garbage.ts'
import type { PromptPart, Work } from '../engine.ts'
import { toFailure } from './failure.ts'
import { HEARTBEAT_MS } from './heartbeat.ts'
import { LoadedModel } from './loaded-model.ts'
import { loadNativeLibraries } from './native/libraries.ts'
import { locateNativeLibraries } from './native-paths.ts'
import type { EngineSettings, FromEngine, LoadStage, ToEngine } from './protocol.ts'
import { Scheduler } from './scheduler.ts'
import { type WarmUp, warmUp } from './warm-up.ts'

class EngineProcess {
  readonly #loaded: LoadedModel
  readonly #scheduler: Scheduler
  /** Requests whose constraints or sounds are being prepared. */
  readonly #preparing = new Set<number>()

  constructor(settings: EngineSettings) {
    let warm: WarmUp
    const begins = (stage: LoadStage) => send({ type: 'loading', stage })
    begins('libraries')
    const libraries = loadNativeLibraries(locateNativeLibraries())
    try {
      this.#loaded = new LoadedModel(libraries, settings, begins)
      begins('warm-up')
      warm = warmUp(this.#loaded, settings.image)
    } catch (error) {
      // The library's own words on what is wrong are in its log.
      libraries.flushLog()
      throw error
    }
    this.#scheduler = new Scheduler(this.#loaded, warm.planner, settings, send)
    send({ type: 'ready', info: this.#loaded.info, longestStepMs: warm.longestStepMs })
    setInterval(() => send({ type: 'heartbeat' }), HEARTBEAT_MS)
  }

  handle(message: ToEngine): void {
    if (message.type === 'generate') this.#generate(message.id, message.work)
    else if (message.type === 'abort') {
      this.#preparing.delete(message.id)
      this.#scheduler.abort(message.id)
    } else if (message.type === 'stats') send({ type: 'stats', id: message.id, stats: this.#scheduler.stats })
    else if (message.type === 'count') this.#count(message.id, message.parts)
  }

  #count(id: number, parts: readonly PromptPart[]): void {
    const { reader } = this.#loaded
    reader
      .prepare(parts, '')
      .then(() => send({ type: 'counted', id, tokens: reader.count(parts, 'messages') }))
      .catch((error) => send({ type: 'error', id, error: toFailure(error) }))
  }

  /**
   * Submits work once its constraints are compiled and its sounds are ready for the encoder; work without any is not
   * overtaken by other such.
   */
  #generate(id: number, work: Work): void {
    const constraints = work.branches.flatMap(({ constraint }) => constraint ?? [])
    const parts = [work.prefix, ...work.branches.map(({ suffix }) => suffix)].flat()
    if (constraints.length === 0 && !parts.some(({ type }) => type === 'audio')) {
      this.#scheduler.submit(id, work)
      return
    }
    this.#preparing.add(id)
    Promise.all([
      this.#loaded.reader.prepare(parts, work.organisation),
      ...constraints.map((constraint) => this.#loaded.constraints.prepare(constraint)),
    ]).then(
      () => {
        if (this.#preparing.delete(id)) this.#scheduler.submit(id, work)
      },
      (error) => {
        if (this.#preparing.delete(id)) send({ type: 'error', id, error: toFailure(error) })
      },
    )
  }
}

function send(message: FromEngine): void {
  process.send?.(message)
}

// A terminal's interrupt reaches the whole process group, and a service manager's SIGTERM may reach every process of the
// service. The API process decides when the engine ends: answers may be under way.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {})
process.on('disconnect', () => process.exit(0))

releaseMemoryWhenIdle()

let engine: EngineProcess | null = null
process.on('message', (message: ToEngine) => {
  if (message.type === 'close') process.exit(0)
  if (message.type !== 'load') {
    engine?.handle(message)
    return
  }
  try {
    engine = new EngineProcess(message.settings)
  } catch (error) {
    send({ type: 'failed', message: error instanceof Error ? error.message : String(error) })
    process.disconnect()
  }
})
