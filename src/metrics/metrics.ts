import { monitorEventLoopDelay } from 'node:perf_hooks'
import { Counter, Gauge, Histogram, Registry } from 'prom-client'
import type { EngineStats } from '../inference/contract/stats.ts'
import type { Outcome, PoolMeter } from '../inference/pool/pool-meter.ts'
import { type MeasuredEngine, statsOf } from './engine-stats.ts'

/** A request whose response has ended. */
export interface MeasuredRequest {
  /** The route, e.g. `/v1/models/:model_id`. */
  readonly endpoint: string
  readonly method: string
  readonly status: number
  /** Id of the model that the request was admitted to; empty if there is none. */
  readonly model: string
  readonly ms: number
}

const EVENT_LOOP_SAMPLE_MS = 10
const LATENCY_BUCKETS = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300]
const WATCH_STATES = ['starting', 'running', 'offline', 'waiting']
const CAMERA_STATES = ['delivering', 'offline']
const TOKEN_BUCKETS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5]

/** Metrics that are read from the statistics of the engines at each scrape. */
const READINGS: readonly (readonly [kind: 'gauge' | 'counter', name: string, of: keyof EngineStats, help: string])[] = [
  ['gauge', 'queue_length', 'waiting', 'Requests without a started completion.'],
  ['gauge', 'running_sequences', 'running', 'Completions being generated.'],
  ['gauge', 'kv_cells', 'totalCells', 'Size of the KV cache; one cell holds one token.'],
  ['gauge', 'kv_cells_used', 'usedCells', 'KV cells in use.'],
  ['gauge', 'kv_cells_retained', 'retainedCells', 'KV cells that finished requests hold until they are needed.'],
  ['gauge', 'prefix_cache_cells', 'cachedCells', 'Cells held by the prefix cache, in memory of its own.'],
  ['gauge', 'engine_resident_memory_bytes', 'residentBytes', 'Resident memory of the engine process.'],
  ['counter', 'prefill_tokens_total', 'prefilledTokens', 'Prompt tokens computed.'],
  ['counter', 'decode_tokens_total', 'decodedTokens', 'Completion tokens computed.'],
  ['counter', 'draft_tokens_total', 'draftedTokens', 'Tokens drafted and verified.'],
  ['counter', 'draft_tokens_accepted_total', 'acceptedTokens', 'Drafted tokens that were generated.'],
  ['counter', 'prefix_cache_hits_total', 'prefixHits', 'Prompts with a cached prefix.'],
  ['counter', 'prefix_cache_misses_total', 'prefixMisses', 'Prompts without a cached prefix.'],
  ['gauge', 'prefix_cache_disk_bytes', 'diskBytes', 'Size of what the prefix cache has on disk.'],
  ['gauge', 'prefix_cache_disk_files', 'diskSequences', 'Files of the prefix cache on disk.'],
  ['counter', 'prefix_cache_disk_hits_total', 'diskHits', 'Prompts whose beginning was read from disk.'],
  ['counter', 'prefix_cache_tokens_total', 'reusedTokens', 'Prompt tokens that were reused.'],
  ['counter', 'interruptions_total', 'preemptions', 'Completions preempted for lack of KV cells and computed again.'],
]

/** Returns the state of each watch and each camera. */
type StatesOf = Readonly<Record<'watches' | 'cameras', () => readonly string[]>>

/** Everything that the service measures, in Prometheus' text format. */
export class Metrics implements PoolMeter {
  readonly #registry = new Registry()
  #engines: () => readonly MeasuredEngine[] = () => []
  #states: StatesOf = { watches: () => [], cameras: () => [] }

  readonly #requests = this.#counter('http_requests_total', 'Completed requests; status 499: client disconnected.', [
    'endpoint',
    'method',
    'status',
    'model',
  ])
  readonly #requestSeconds = this.#histogram(
    'http_request_duration_seconds',
    'Time from the headers of a request to the end of its response.',
    ['endpoint', 'model'],
    LATENCY_BUCKETS,
  )
  readonly #inProgress = this.#gauge('http_requests_in_progress', 'Requests whose response has not ended.', [])
  readonly #firstTokenSeconds = this.#histogram(
    'time_to_first_token_seconds',
    'Time from submitting work to an engine to its first text, including queueing and loading the model.',
    ['model'],
    LATENCY_BUCKETS,
  )
  readonly #interTokenSeconds = this.#histogram(
    'inter_token_seconds',
    'Time between two texts of one completion.',
    ['model'],
    TOKEN_BUCKETS,
  )
  readonly #mediaSeconds = this.#histogram(
    'media_seconds',
    'Time to fetch or decode one image, video or audio input.',
    ['stage', 'kind'],
    LATENCY_BUCKETS,
  )
  readonly #generations = this.#counter('generations_total', 'Generations that finished, failed or were aborted.', [
    'model',
    'outcome',
  ])
  readonly #loads = this.#counter('model_loads_total', 'Loads of models that succeeded or failed.', ['model', 'result'])
  readonly #loadSeconds = this.#gauge('model_load_seconds', 'Duration of the last model load.', ['model'])
  readonly #unloads = this.#counter(
    'model_unloads_total',
    'Models unloaded to make room for others, or because they were removed.',
    ['model'],
  )
  readonly #restarts = this.#counter('engine_restarts_total', 'Engine processes that ended unexpectedly.', ['model'])

  readonly #watches = this.#gauge('watches', 'Watches that this server runs.', ['state'])
  readonly #watchFrames = this.#counter('watch_frames_total', 'Frames of watches: looked at, failed, or dropped.', [
    'result',
  ])
  readonly #lookSeconds = this.#histogram(
    'watch_look_seconds',
    'Time from the arrival of a frame until what its look has found is stored.',
    [],
    LATENCY_BUCKETS,
  )
  readonly #watchEvents = this.#counter('watch_events_total', 'Events of watches.', ['type'])
  readonly #cameras = this.#gauge('cameras', 'Cameras that watches of this server have.', ['state'])
  readonly #cameraConnections = this.#counter('camera_connections_total', 'Cameras that came to deliver.', [])
  readonly #cameraFailures = this.#counter(
    'camera_failures_total',
    'Cameras that delivered no longer, and connections that failed.',
    ['reason'],
  )
  readonly #cameraBytes = this.#counter('camera_received_bytes_total', 'Bytes that cameras have sent.', [])
  readonly #cameraFrames = this.#counter('camera_frames_total', 'Frames that cameras have sent.', [])
  readonly #cameraPictures = this.#counter('camera_decoded_frames_total', 'Frames of cameras that were decoded.', [])
  readonly #webhooks = this.#counter('webhook_deliveries_total', 'Attempts to send an event of a watch.', ['result'])

  readonly #rejections = this.#counter('unhandled_rejections_total', 'Unhandled promise rejections: bugs.', [])
  readonly #exceptions = this.#counter('uncaught_exceptions_total', 'Uncaught exceptions: bugs.', [])

  /** The metrics from here on are read from the engines at each scrape. */
  readonly #ready = this.#gauge('model_ready', '1 when the model is loaded and accepts work.', ['model'])
  readonly #loadWaiting = this.#gauge('model_load_waiting', 'Requests waiting for the model to load.', ['model'])
  readonly #estimate = this.#gauge('model_memory_estimate_bytes', 'Estimated memory of the model when loaded.', [
    'model',
  ])
  readonly #stats = READINGS.map(([kind, name, of, help]) => ({
    metric: kind === 'gauge' ? this.#gauge(name, help, ['model']) : this.#counter(name, help, ['model']),
    of,
  }))
  readonly #eventLoopSeconds = this.#gauge(
    'event_loop_delay_seconds',
    'Longest event loop delay of the API process since the last scrape.',
    [],
  )
  readonly #eventLoop = monitorEventLoopDelay({ resolution: EVENT_LOOP_SAMPLE_MS })
  readonly #cpuSeconds: Counter<string>
  readonly #resident: Gauge<string>

  constructor(version: string) {
    this.#gauge('build_info', 'The running version.', ['version']).set({ version }, 1)
    const registers = [this.#registry]
    // Metrics with the names that Prometheus clients share.
    const started = { name: 'process_start_time_seconds', help: 'Start time of the API process.', registers }
    new Gauge(started).set(Math.round(Date.now() / 1000 - process.uptime()))
    const cpu = { name: 'process_cpu_seconds_total', help: 'CPU time of the API process.', registers }
    this.#cpuSeconds = new Counter(cpu)
    const resident = { name: 'process_resident_memory_bytes', help: 'Resident memory of the API process.', registers }
    this.#resident = new Gauge(resident)
    this.#eventLoop.enable()
  }

  get contentType(): string {
    return this.#registry.contentType
  }

  /** Sets the source of the current engines for each scrape. */
  watch(engines: () => readonly MeasuredEngine[]): void {
    this.#engines = engines
  }

  /** Sets the source, for each scrape, of the states of this server's watches and cameras. */
  states(states: StatesOf): void {
    this.#states = states
  }

  /** All metrics in Prometheus' text format. */
  async read(): Promise<string> {
    const all = await Promise.all(this.#engines().map(async (engine) => ({ engine, stats: await statsOf(engine) })))
    // No await from here on, so that two concurrent scrapes do not mix their values.
    for (const metric of [this.#ready, this.#loadWaiting, this.#estimate]) metric.reset()
    for (const { metric } of this.#stats) metric.reset()
    for (const { engine, stats } of all) {
      const model = { model: engine.model.name }
      this.#ready.set(model, engine.state === 'ready' ? 1 : 0)
      this.#loadWaiting.set(model, engine.waiting)
      this.#restarts.inc(model, 0)
      if (engine.model.memoryBytes !== null) this.#estimate.set(model, engine.model.memoryBytes)
      if (stats === null) continue
      for (const { metric, of } of this.#stats) {
        // Undefined if the engine does not know the number.
        if (stats[of] !== undefined) metric.inc(model, stats[of])
      }
    }
    countStates(this.#watches, WATCH_STATES, this.#states.watches())
    countStates(this.#cameras, CAMERA_STATES, this.#states.cameras())
    const { user, system } = process.cpuUsage()
    this.#cpuSeconds.reset()
    this.#cpuSeconds.inc((user + system) / 1e6)
    this.#resident.set(process.memoryUsage.rss())
    // A sample is the time between two timer ticks; the excess over the interval is delay.
    this.#eventLoopSeconds.set(Math.max(0, this.#eventLoop.max / 1e9 - EVENT_LOOP_SAMPLE_MS / 1000))
    this.#eventLoop.reset()
    return this.#registry.metrics()
  }

  requestStarted(): void {
    this.#inProgress.inc()
  }

  requestEnded({ endpoint, method, status, model, ms }: MeasuredRequest): void {
    this.#inProgress.dec()
    this.#requests.inc({ endpoint, method, status, model })
    this.#requestSeconds.observe({ endpoint, model }, ms / 1000)
  }

  loaded(model: string, ms: number): void {
    this.#loads.inc({ model, result: 'loaded' })
    this.#loadSeconds.set({ model }, ms / 1000)
  }

  loadFailed(model: string): void {
    this.#loads.inc({ model, result: 'failed' })
  }

  unloaded(model: string): void {
    this.#unloads.inc({ model })
  }

  restarted(model: string): void {
    this.#restarts.inc({ model })
  }

  firstText(model: string, ms: number): void {
    this.#firstTokenSeconds.observe({ model }, ms / 1000)
  }

  nextText(model: string, ms: number): void {
    this.#interTokenSeconds.observe({ model }, ms / 1000)
  }

  mediaHandled(stage: string, kind: string, ms: number): void {
    this.#mediaSeconds.observe({ stage, kind }, ms / 1000)
  }

  ended(model: string, outcome: Outcome): void {
    this.#generations.inc({ model, outcome })
  }

  frameEnded(result: string): void {
    this.#watchFrames.inc({ result })
  }

  looked(ms: number): void {
    this.#lookSeconds.observe(ms / 1000)
  }

  eventTold(type: string): void {
    this.#watchEvents.inc({ type })
  }

  cameraConnected(): void {
    this.#cameraConnections.inc()
  }

  cameraFailed(reason: string): void {
    this.#cameraFailures.inc({ reason })
  }

  cameraReceived({ bytes, frames, pictures }: Readonly<Record<'bytes' | 'frames' | 'pictures', number>>): void {
    this.#cameraBytes.inc(bytes)
    this.#cameraFrames.inc(frames)
    this.#cameraPictures.inc(pictures)
  }

  webhookSent(result: string): void {
    this.#webhooks.inc({ result })
  }

  faulted(kind: 'rejection' | 'exception'): void {
    const counter = kind === 'rejection' ? this.#rejections : this.#exceptions
    counter.inc()
  }

  #counter(name: string, help: string, labelNames: string[]): Counter<string> {
    return new Counter({ name: `lookout_${name}`, help, labelNames, registers: [this.#registry] })
  }

  #gauge(name: string, help: string, labelNames: string[]): Gauge<string> {
    return new Gauge({ name: `lookout_${name}`, help, labelNames, registers: [this.#registry] })
  }

  #histogram(name: string, help: string, labelNames: string[], buckets: number[]): Histogram<string> {
    return new Histogram({ name: `lookout_${name}`, help, labelNames, buckets, registers: [this.#registry] })
  }
}

/** States without members count as zero. */
function countStates(gauge: Gauge<string>, known: readonly string[], states: readonly string[]): void {
  gauge.reset()
  for (const state of known) gauge.set({ state }, 0)
  for (const state of states) gauge.inc({ state })
}
