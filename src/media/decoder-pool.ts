import { availableParallelism } from 'node:os'
import { type DecodeJob, reasonOf } from './decode-job.ts'
import { DecodeQueue } from './decode-queue.ts'
import { cannotStart, Decoder } from './decoder.ts'
import type { DecodeResults, DecodeTask } from './decoding/protocol.ts'
import { FairSlots } from './fair-slots.ts'

/** A task on which a decoder works longer is ended. */
const TIMEOUT_MS: Readonly<Record<DecodeTask['type'], number>> = { image: 20_000, video: 60_000, audio: 60_000 }
/** Of one process: enough for 100 megapixels, or a film in 8K. */
const MEMORY_BYTES = 2 * 2 ** 30
/** A request has a few of its media waiting at a time: so many serve hundreds of requests. */
const MOST_WAITING = 4096

export interface DecoderPoolOptions {
  /** Processes at most. */
  readonly size?: number
  /** For every task, whatever its type. */
  readonly timeoutMs?: number
  /** Of one process, where the system can limit it. */
  readonly memoryBytes?: number
  /** Tasks that may wait for a process. */
  readonly mostWaiting?: number
}

/** On whose behalf a task is done. */
export interface DecodeInput {
  readonly organisation: string
  /** Names the input in errors. */
  readonly param: string
  readonly signal: AbortSignal
}

/**
 * Decodes media in processes of their own, each of which does one task at a time. An input that crashes its process
 * twice, exhausts it or takes too long gets a 400, and the process a successor; no other input notices.
 */
export class DecoderPool {
  readonly #size: number
  readonly #timeoutMs: number | null
  readonly #memoryBytes: number
  readonly #waiting: DecodeQueue
  readonly #decoders = new Set<Decoder>()
  /** One at a time takes much memory. */
  readonly #large = new FairSlots(1)
  #jobs = 0
  /** Why no more is decoded, once it is closed. */
  readonly #closed = new AbortController()

  constructor(options: DecoderPoolOptions = {}) {
    this.#size = options.size ?? Math.max(2, Math.min(4, availableParallelism()))
    this.#timeoutMs = options.timeoutMs ?? null
    this.#memoryBytes = options.memoryBytes ?? MEMORY_BYTES
    this.#waiting = new DecodeQueue(options.mostWaiting ?? MOST_WAITING)
  }

  /** @throws ApiError 400 naming `param` when the input does not decode, 503 when too much waits already. */
  async decode<Task extends DecodeTask>(
    task: Task,
    { organisation, param, signal }: DecodeInput,
  ): Promise<DecodeResults[Task['type']]> {
    signal.throwIfAborted()
    this.#closed.signal.throwIfAborted()
    const { promise, resolve, reject } = Promise.withResolvers<DecodeResults[DecodeTask['type']]>()
    const job: DecodeJob = { id: this.#jobs++, organisation, task, param, signal, losses: 0, resolve, reject }
    if (this.#hasRoom) this.#begin(job)
    else this.#waiting.add(job, this.#size)
    const abandon = () => {
      if (this.#waiting.remove(job)) reject(reasonOf(signal))
    }
    signal.addEventListener('abort', abandon, { once: true })
    try {
      return (await promise) as DecodeResults[Task['type']]
    } finally {
      signal.removeEventListener('abort', abandon)
    }
  }

  /** Of the processes that there are. */
  get pids(): number[] {
    return [...this.#decoders].flatMap(({ pid }) => pid ?? [])
  }

  /** Starts a process ahead of the first input. */
  warmUp(): void {
    if (this.#decoders.size === 0) this.#start()
  }

  async close(): Promise<void> {
    const closed = new Error('The decoders are closed')
    this.#closed.abort(closed)
    for (let job = this.#waiting.take(); job !== undefined; job = this.#waiting.take()) job.reject(closed)
    await Promise.all([...this.#decoders].map((decoder) => decoder.end()))
  }

  get #idle(): Decoder | undefined {
    return [...this.#decoders].find((decoder) => decoder.isIdle)
  }

  get #hasRoom(): boolean {
    return this.#decoders.size < this.#size || this.#idle !== undefined
  }

  #begin(job: DecodeJob): void {
    let decoder: Decoder
    try {
      decoder = this.#idle ?? this.#start()
    } catch (error) {
      job.reject(cannotStart(error))
      return
    }
    decoder.run(job, this.#timeoutMs ?? TIMEOUT_MS[job.task.type])
  }

  /** Gives those that are free what waits. */
  #pump(): void {
    if (this.#closed.signal.aborted) return
    while (this.#hasRoom) {
      const job = this.#waiting.take()
      if (job === undefined) return
      this.#begin(job)
    }
  }

  #start(): Decoder {
    const decoder = new Decoder(this.#memoryBytes, this.#large, {
      free: (ms) => {
        this.#waiting.took(ms)
        this.#pump()
      },
      isSpare: () => this.#decoders.size > 1,
      retry: (job) => {
        if (this.#closed.signal.aborted) return job.reject(this.#closed.signal.reason)
        this.#waiting.return(job)
      },
      exit: () => {
        this.#decoders.delete(decoder)
        this.#pump()
      },
    })
    this.#decoders.add(decoder)
    return decoder
  }
}
