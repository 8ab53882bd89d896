import { availableParallelism } from 'node:os'
import { FairSlots } from '../../../lib/fair-slots.ts'
import { chooseSandbox, type Sandbox, type SandboxMode } from '../../sandbox/choice.ts'
import { type DecodeJob, reasonOf } from './decode-job.ts'
import { DecodeQueue } from './decode-queue.ts'
import { cannotDecode, Decoder, PROGRAM } from './decoder.ts'
import type { DecodeResults, DecodeTask } from './protocol.ts'

/** The time that a decoder may work on a task before it is stopped. */
const TIMEOUT_MS: Readonly<Record<DecodeTask['type'], number>> = {
  image: 20_000,
  video: 60_000,
  audio: 60_000,
  document: 20_000,
  page: 20_000,
}
/** Memory limit of one process: enough for 100 megapixels, or 8K video. */
const MEMORY_BYTES = 2 * 2 ** 30
/**
 * Cores for each process that stays when it is idle. Starting one, with its image decoder, takes several times as long
 * as decoding a picture, and the first clients of an idle server would have to wait for it.
 */
const CORES_PER_KEPT = 4
/** Each request has only a few media waiting at a time, so this serves hundreds of requests. */
const MOST_WAITING = 4096

export interface DecoderPoolOptions {
  /** The most processes to run. */
  readonly size?: number
  /** Processes that `warmUp` starts and that stay when they are idle; by default, by the number of cores. */
  readonly kept?: number
  /** Time limit for every task; by default it depends on the task's type. */
  readonly timeoutMs?: number
  /** Memory limit of one process, where the system can enforce it. */
  readonly memoryBytes?: number
  /** The most tasks that may wait for a process. */
  readonly mostWaiting?: number
  /** Whether the processes confine themselves before they decode; by default, if the system supports it. */
  readonly sandbox?: SandboxMode
  /** The program of the processes. Tests replace it by a hostile one. */
  readonly program?: string
}

/** The request and the input that a task belongs to. */
export interface DecodeInput {
  readonly organisation: string
  /** Names the input in errors. */
  readonly param: string
  readonly signal: AbortSignal
}

/**
 * Decodes media in separate processes, each of which runs one task at a time. An input that crashes its process twice,
 * exhausts it or takes too long gets a 400; one whose processes are killed from outside, a 503. The process is then
 * replaced, and no other input is affected.
 */
export class DecoderPool {
  readonly sandbox: Sandbox
  readonly #program: string
  readonly #size: number
  readonly #kept: number
  readonly #timeoutMs: number | null
  readonly #memoryBytes: number
  readonly #waiting: DecodeQueue
  readonly #decoders = new Set<Decoder>()
  /** Limits tasks that take much memory to one at a time. */
  readonly #large = new FairSlots(1)
  #jobs = 0
  /** Aborted when the pool closes; holds the reason. */
  readonly #closed = new AbortController()

  /** @throws Error when a sandbox is required and the system has none. */
  constructor(options: DecoderPoolOptions = {}) {
    this.sandbox = chooseSandbox(options.sandbox ?? 'auto')
    this.#program = options.program ?? PROGRAM
    this.#size = options.size ?? Math.max(2, Math.min(4, availableParallelism()))
    const kept = options.kept ?? Math.floor(availableParallelism() / CORES_PER_KEPT)
    this.#kept = Math.max(1, Math.min(this.#size, kept))
    this.#timeoutMs = options.timeoutMs ?? null
    this.#memoryBytes = options.memoryBytes ?? MEMORY_BYTES
    this.#waiting = new DecodeQueue(options.mostWaiting ?? MOST_WAITING)
  }

  /** @throws ApiError 400 naming `param` when the input cannot be decoded, 503 when too many tasks wait. */
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

  /** Ids of the running processes. */
  get pids(): number[] {
    return [...this.#decoders].flatMap(({ pid }) => pid ?? [])
  }

  /** Starts processes before the first input arrives. */
  warmUp(): void {
    while (this.#decoders.size < this.#kept) this.#start()
  }

  async close(): Promise<void> {
    const closed = new Error('The decoders are closed')
    this.#closed.abort(closed)
    for (let job = this.#waiting.take(); job !== undefined; job = this.#waiting.take()) job.reject(closed)
    await Promise.all([...this.#decoders].map((decoder) => decoder.end()))
  }

  get #idle(): Decoder[] {
    return [...this.#decoders].filter((decoder) => decoder.isIdle)
  }

  get #hasRoom(): boolean {
    return this.#decoders.size < this.#size || this.#idle.length > 0
  }

  #begin(job: DecodeJob): void {
    let decoder: Decoder
    try {
      decoder = this.#idleFor(job.task.type) ?? this.#startInRoom()
    } catch (error) {
      job.reject(cannotDecode(error))
      return
    }
    decoder.run(job, this.#timeoutMs ?? TIMEOUT_MS[job.task.type])
  }

  /** An idle decoder that can do the task, preferably one that cannot decode videos. */
  #idleFor(type: DecodeTask['type']): Decoder | undefined {
    const able = this.#idle.filter((decoder) => decoder.canDecode(type))
    return able.find((decoder) => !decoder.canDecode('video')) ?? able[0]
  }

  /** Starts a decoder. If there is no room for another, it replaces an idle one that cannot do the task. */
  #startInRoom(): Decoder {
    if (this.#decoders.size >= this.#size) void this.#idle[0]?.end()
    return this.#start()
  }

  /** Starts waiting jobs on free decoders. */
  #pump(): void {
    if (this.#closed.signal.aborted) return
    while (this.#hasRoom) {
      const job = this.#waiting.take()
      if (job === undefined) return
      this.#begin(job)
    }
  }

  #start(): Decoder {
    const options = {
      memoryBytes: this.#memoryBytes,
      isConfined: this.sandbox.isOn,
      large: this.#large,
      preloads: this.#kept > 1,
      program: this.#program,
    }
    const decoder = new Decoder(options, {
      free: (ms) => {
        this.#waiting.recordTime(ms)
        this.#pump()
      },
      isSpare: () => this.#decoders.size > this.#kept,
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
