import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process'
import { availableParallelism } from 'node:os'
import type { Writable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { internalError, invalidRequest } from '../errors.ts'
import { MAPPED_BLOCKS, YOUNG_HEAP_LIMIT } from '../garbage.ts'
import {
  BYTES_FD,
  type DecodeMessage,
  type DecodeReply,
  type DecodeResult,
  type DecodeResults,
  type DecodeTask,
} from './decoding/protocol.ts'

/** A task that takes longer is ended. */
const TIMEOUT_MS: Readonly<Record<DecodeTask['type'], number>> = { image: 20_000, video: 60_000, audio: 60_000 }
/** A process that has had nothing to do for so long ends, unless it is the last one. */
const IDLE_MS = 10_000
/** Of one process: enough for 100 megapixels, or a film in 8K. */
const MEMORY_BYTES = 2 * 2 ** 30
const SCRIPT = fileURLToPath(new URL('./decoding/decoder-process.ts', import.meta.url))

/** What a task is called in errors. */
const NOUNS: Readonly<Record<DecodeTask['type'], string>> = { image: 'picture', video: 'video', audio: 'sound' }

export interface DecoderPoolOptions {
  /** Processes at most. */
  readonly size?: number
  /** For every task, whatever its type. */
  readonly timeoutMs?: number
  /** Of one process, where the system can limit it. */
  readonly memoryBytes?: number
}

interface Job {
  readonly task: DecodeTask
  readonly param: string
  readonly signal: AbortSignal
  readonly resolve: (result: DecodeResult) => void
  readonly reject: (error: Error) => void
}

/**
 * Decodes media in processes of their own, each of which does one task at a time. An input that crashes its process,
 * exhausts it or takes too long gets a 400, and the process a successor; no other input notices.
 */
export class DecoderPool {
  readonly #size: number
  readonly #timeoutMs: number | null
  readonly #memoryBytes: number
  readonly #waiting: Job[] = []
  readonly #processes = new Set<DecoderProcess>()
  #closed = false

  constructor(options: DecoderPoolOptions = {}) {
    this.#size = options.size ?? Math.max(2, Math.min(4, availableParallelism()))
    this.#timeoutMs = options.timeoutMs ?? null
    this.#memoryBytes = options.memoryBytes ?? MEMORY_BYTES
  }

  /** @throws ApiError 400 naming `param` when the input does not decode. */
  decode<Task extends DecodeTask>(
    task: Task,
    param: string,
    signal: AbortSignal,
  ): Promise<DecodeResults[Task['type']]> {
    signal.throwIfAborted()
    if (this.#closed) throw new Error('The decoders are closed')
    return new Promise((resolve, reject) => {
      const job: Job = { task, param, signal, resolve: resolve as Job['resolve'], reject }
      this.#waiting.push(job)
      signal.addEventListener('abort', () => this.#abandon(job), { once: true })
      this.#pump()
    })
  }

  /** Of the processes that there are. */
  get pids(): number[] {
    return [...this.#processes].flatMap(({ pid }) => pid ?? [])
  }

  /** Starts a process ahead of the first input. */
  warmUp(): void {
    if (this.#processes.size === 0) this.#spawn()
  }

  async close(): Promise<void> {
    this.#closed = true
    for (const job of this.#waiting.splice(0)) job.reject(new Error('The decoders are closed'))
    await Promise.all([...this.#processes].map((process) => process.end()))
  }

  #pump(): void {
    while (this.#waiting.length > 0) {
      const idle = [...this.#processes].find((process) => process.isIdle)
      if (!idle && this.#processes.size >= this.#size) return
      const job = this.#waiting.shift()!
      ;(idle ?? this.#spawn()).run(job, this.#timeoutMs ?? TIMEOUT_MS[job.task.type])
    }
  }

  #spawn(): DecoderProcess {
    const process = new DecoderProcess(this.#memoryBytes, {
      free: () => this.#pump(),
      isSpare: () => this.#processes.size > 1,
      exit: () => {
        this.#processes.delete(process)
        if (!this.#closed) this.#pump()
      },
    })
    this.#processes.add(process)
    return process
  }

  #abandon(job: Job): void {
    const place = this.#waiting.indexOf(job)
    if (place === -1) return
    this.#waiting.splice(place, 1)
    job.reject(reasonOf(job.signal))
  }
}

interface Owner {
  /** It takes another task. */
  free(): void
  /** Whether there are others. */
  isSpare(): boolean
  exit(): void
}

class DecoderProcess {
  readonly #child: ChildProcess
  readonly #bytes: Writable
  readonly #owner: Owner
  readonly #gone: Promise<void>
  #job: Job | null = null
  #timer: NodeJS.Timeout | undefined
  #isEnding = false

  constructor(memoryBytes: number, owner: Owner) {
    this.#owner = owner
    this.#child = start(memoryBytes)
    this.#child.on('message', (reply: DecodeReply) => this.#settle(reply))
    this.#child.on('error', () => this.#child.kill('SIGKILL'))
    this.#bytes = this.#child.stdio[BYTES_FD] as Writable
    // The end of the process tells the same.
    this.#bytes.on('error', () => {})
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#gone = promise
    this.#child.once('close', () => {
      this.#isEnding = true
      const job = this.#take()
      job?.reject(invalidRequest(`The ${NOUNS[job.task.type]} cannot be decoded`, job.param))
      owner.exit()
      resolve()
    })
  }

  get pid(): number | undefined {
    return this.#child.pid
  }

  get isIdle(): boolean {
    return this.#job === null && !this.#isEnding
  }

  run(job: Job, timeoutMs: number): void {
    clearTimeout(this.#timer)
    this.#job = job
    this.#timer = setTimeout(() => {
      this.#fail(invalidRequest(`The ${NOUNS[job.task.type]} takes too long to decode`, job.param))
    }, timeoutMs)
    job.signal.addEventListener('abort', this.#onAbort, { once: true })
    const { bytes, ...rest } = job.task
    this.#child.send({ ...rest, byteLength: bytes.length } as DecodeMessage)
    this.#bytes.write(bytes)
  }

  async end(): Promise<void> {
    this.#fail(new Error('The decoders are closed'))
    await this.#gone
  }

  readonly #onAbort = () => {
    if (this.#job) this.#fail(reasonOf(this.#job.signal))
  }

  /** There is no other way to stop a native decoder. */
  #fail(error: Error): void {
    this.#isEnding = true
    this.#take()?.reject(error)
    this.#child.kill('SIGKILL')
  }

  #settle(reply: DecodeReply): void {
    const job = this.#take()
    if (!job) return
    if (reply.ok) job.resolve(reply.result)
    else if (reply.ok === null) job.reject(internalError(new Error(reply.message)))
    else job.reject(invalidRequest(reply.message, job.param, { code: reply.code }))
    this.#owner.free()
    if (this.#job !== null) return
    this.#timer = setTimeout(() => {
      if (this.#owner.isSpare()) void this.end()
    }, IDLE_MS)
  }

  #take(): Job | null {
    const job = this.#job
    this.#job = null
    clearTimeout(this.#timer)
    job?.signal.removeEventListener('abort', this.#onAbort)
    return job
  }
}

/**
 * Without the server's environment, which may hold keys, and with a limit on memory where the system's shell can set one:
 * then an allocation beyond it fails, and with it the input.
 */
function start(memoryBytes: number): ChildProcess {
  const options: SpawnOptions = {
    serialization: 'advanced',
    stdio: ['ignore', 'ignore', 'ignore', 'ipc', 'pipe'],
    env: MAPPED_BLOCKS,
  }
  if (process.platform === 'win32') return spawn(process.execPath, [...YOUNG_HEAP_LIMIT, SCRIPT], options)
  const limited = `ulimit -d ${Math.floor(memoryBytes / 1024)} 2>/dev/null; exec "$@"`
  return spawn('/bin/sh', ['-c', limited, 'sh', process.execPath, ...YOUNG_HEAP_LIMIT, SCRIPT], options)
}

function reasonOf({ reason }: AbortSignal): Error {
  return reason instanceof Error ? reason : new Error('Aborted', { cause: reason })
}
