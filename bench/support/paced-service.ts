/**
 * The whole service with an engine whose tokens arrive by the clock, as those of a cluster do: it never waits for the
 * service. Each token's text is the moment at which it was due, so that a client can tell how late it arrives.
 */
import { createServer } from 'node:http'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import type { Engine, ModelInfo } from '../../src/inference/contract/engine.ts'
import { EventQueue } from '../../src/inference/contract/event-queue.ts'
import type { EngineEvent, Generation, Measurement } from '../../src/inference/contract/generation.ts'
import { joinTexts } from '../../src/inference/contract/join-texts.ts'
import type { PromptPart } from '../../src/inference/contract/parts.ts'
import type { Work } from '../../src/inference/contract/work.ts'
import { STAMP_TEXT, stamp } from './stamp.ts'
import { serveStandIn } from './stand-in.ts'

/** Streams are spread over this many schedules, as if over the replicas of a cluster, whose steps differ in time. */
const SCHEDULES = 10
const UNLIMITED = 1_000_000
/** What a pull from a timer may be late before the event loop counts as delayed; Node's own resolution. */
const SAMPLE_MS = 1

/** Null where tokens do not take time: all are there at once. */
const tokensPerSecond = Number(process.env.BENCH_TOKENS_PER_SECOND ?? 0) || null

interface Stream {
  readonly queue: EventQueue<EngineEvent>
  readonly tokens: number
  sent: number
}

/** One schedule: every stream of it gets a token at the same moments. */
class Schedule {
  readonly #intervalMs: number
  readonly #streams = new Set<Stream>()
  #dueAt: number

  constructor(intervalMs: number, firstAt: number) {
    this.#intervalMs = intervalMs
    this.#dueAt = firstAt
    this.#wait()
  }

  add(stream: Stream, signal: AbortSignal): void {
    this.#streams.add(stream)
    signal.addEventListener('abort', () => {
      if (this.#streams.delete(stream)) stream.queue.fail(signal.reason)
    })
  }

  /** Hands out every token that is due. A late event loop finds several of each stream. */
  #tick(): void {
    const now = performance.now()
    const texts: string[] = []
    for (; this.#dueAt <= now; this.#dueAt += this.#intervalMs) texts.push(stamp(this.#dueAt))
    for (const stream of this.#streams) {
      const events: EngineEvent[] = []
      for (const text of texts) {
        if (stream.sent === stream.tokens) break
        stream.sent++
        events.push({ type: 'text', branch: 0, completion: 0, text, tokens: 1 })
      }
      if (stream.sent === stream.tokens) {
        events.push(finishOf(stream.tokens))
        this.#streams.delete(stream)
      }
      stream.queue.push(events)
      if (stream.sent === stream.tokens) stream.queue.end()
    }
    this.#wait()
  }

  #wait(): void {
    setTimeout(() => this.#tick(), Math.max(0, this.#dueAt - performance.now()))
  }
}

class PacedEngine implements Engine {
  readonly state = 'ready'
  readonly info: ModelInfo
  readonly #schedules: readonly Schedule[]
  #started = 0

  constructor(info: ModelInfo) {
    this.info = info
    const intervalMs = 1000 / (tokensPerSecond ?? 1)
    const from = performance.now()
    this.#schedules =
      tokensPerSecond === null
        ? []
        : Array.from({ length: SCHEDULES }, (_, i) => new Schedule(intervalMs, from + (i * intervalMs) / SCHEDULES))
  }

  async generate(work: Work, signal: AbortSignal): Promise<Generation> {
    const tokens = work.branches[0]!.maxTokens ?? UNLIMITED
    const queue = new EventQueue<EngineEvent>(() => {}, joinTexts)
    const stream = { queue, tokens, sent: 0 }
    if (this.#schedules.length > 0) this.#schedules[this.#started++ % SCHEDULES]!.add(stream, signal)
    else {
      const text = STAMP_TEXT.repeat(tokens)
      queue.push([{ type: 'text', branch: 0, completion: 0, text, tokens }, finishOf(tokens)])
      queue.end()
      stream.sent = tokens
    }
    const prompts = [{ promptTokens: 600, imageTokens: 500, audioTokens: 0, cachedTokens: 0 }]
    return { prompts, events: queue, computedTokens: () => stream.sent, settle() {} }
  }

  async countTokens(parts: readonly PromptPart[]): Promise<number> {
    return parts.length
  }

  async measure(): Promise<Measurement> {
    return { prompts: [], exact: false }
  }

  async close(): Promise<void> {}
}

function finishOf(completionTokens: number): EngineEvent {
  return { type: 'finish', branch: 0, completion: 0, reason: 'length', completionTokens }
}

const service = await serveStandIn((info) => new PacedEngine(info))
const eventLoop = monitorEventLoopDelay({ resolution: SAMPLE_MS })
eventLoop.enable()
/** What happened since the last request: the event loop's delay, in ms. */
const gauges = createServer((_request, response) => {
  const [p50, p99, max] = [eventLoop.percentile(50), eventLoop.percentile(99), eventLoop.max].map((ns) => ns / 1e6)
  eventLoop.reset()
  response.end(JSON.stringify({ p50, p99, max }))
}).listen(Number(process.env.BENCH_GAUGES_PORT), '127.0.0.1')
process.stdout.write(`listens on ${service.url}\n`)
process.on('SIGTERM', () => {
  gauges.close()
  void service.close().then(() => process.exit(0))
})
