import type { ChildProcess } from 'node:child_process'
import { closeSync, openSync } from 'node:fs'
import type { Writable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { internalError, invalidRequest, serviceUnavailable } from '../../../lib/errors/errors.ts'
import type { FairSlots } from '../../../lib/fair-slots.ts'
import { limitWork } from '../../../lib/guarded/work-limit.ts'
import { spawnConfined } from '../../sandbox/confined-process.ts'
import { closePair, makeSocketPair, type SocketPair, sendDescriptor } from '../../sandbox/descriptors.ts'
import { type DecodeJob, reasonOf } from './decode-job.ts'
import {
  BYTES_FD,
  type DecodeReply,
  type DecoderEvent,
  type DecoderMessage,
  type DecodeTask,
  LIBRARIES,
  type MediaFile,
  PRELOADS,
  type SentData,
} from './protocol.ts'

/** An idle process ends after this time, unless it is one of those that stay. */
const IDLE_MS = 10_000
/** A job that loses this many processes fails. The first may have been killed by the system or an operator. */
const MOST_LOSSES = 2
const RETRY_AFTER_S = 5
/** The program of a decoder process. */
export const PROGRAM = fileURLToPath(new URL('./decoder-process.ts', import.meta.url))

export interface DecoderOptions {
  /** Memory limit, where the system can enforce it. */
  readonly memoryBytes: number
  /** Whether it confines itself before it decodes. */
  readonly isConfined: boolean
  /** Whether it loads the image decoder before its first task. */
  readonly preloads: boolean
  /** The slots for tasks that take much memory, shared by all decoders. */
  readonly large: FairSlots
  readonly program: string
}

export interface DecoderOwner {
  /** The decoder is free again. @param ms time that the last job took. */
  free(ms: number): void
  /** Whether there are more decoders than are kept when idle. */
  isSpare(): boolean
  /** Tries the job again in another process; a call of `exit` follows. */
  retry(job: DecodeJob): void
  exit(): void
}

/** The parent's side of one decoder process. */
export class Decoder {
  readonly #child: ChildProcess
  readonly #bytes: Writable | null
  /** Our end of the socket that carries descriptors of files; null when the process opens files itself. */
  readonly #files: number | null
  readonly #owner: DecoderOwner
  readonly #exited: Promise<void>
  readonly #large: FairSlots
  readonly #isConfined: boolean
  /** Held while the process may take much memory. */
  #slot: Disposable | null = null
  #job: DecodeJob | null = null
  #limit: Disposable | null = null
  #started = 0
  #idle: NodeJS.Timeout | undefined
  /** The only library, besides the image decoder, that the confined process has loaded; null while it can load any. */
  #library: (typeof LIBRARIES)[DecodeTask['type']] | null = null
  #isFresh = true
  /** Whether it parses the input of its job. */
  #hasBegun = false
  #isEnding = false
  #hasExited = false

  /** @throws Error when there are no file descriptors left. */
  constructor(options: DecoderOptions, owner: DecoderOwner) {
    this.#large = options.large
    this.#owner = owner
    this.#isConfined = options.isConfined
    const sockets = options.isConfined ? makeSocketPair() : null
    this.#files = sockets?.ours ?? null
    this.#child = start(options, sockets)
    this.#child.on('message', (event: DecoderEvent) => {
      if (event.ok === 'needs_memory') this.#grant().catch(() => {})
      else if (event.ok === 'begins') this.#hasBegun = true
      else this.#settle(event)
    })
    // A process that could not start, for lack of file descriptors, has no pipes and never emits `close`.
    this.#bytes = (this.#child.stdio?.[BYTES_FD] as Writable | undefined) ?? null
    // The `close` event of the process reports the same failure.
    this.#bytes?.on('error', () => {})
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#exited = promise
    const onExit = (signal: NodeJS.Signals | null) => {
      if (this.#hasExited) return
      this.#hasExited = true
      this.#isEnding = true
      if (this.#files !== null) closeSync(this.#files)
      const job = this.#take()
      if (job) this.#lose(job, signal)
      owner.exit()
      resolve()
    }
    this.#child.once('close', (_code, signal) => onExit(signal))
    this.#child.on('error', () => {
      if (this.#bytes === null) onExit(null)
      else this.#child.kill('SIGKILL')
    })
  }

  get pid(): number | undefined {
    return this.#child.pid
  }

  get isIdle(): boolean {
    return this.#job === null && !this.#isEnding
  }

  /** A confined process has loaded only the image decoder and the library that its first task needed. */
  canDecode(type: DecodeTask['type']): boolean {
    return type === 'image' || this.#library === null || this.#library === LIBRARIES[type]
  }

  run(job: DecodeJob, limitMs: number): void {
    clearTimeout(this.#idle)
    if (this.#isFresh && this.#isConfined) this.#library = LIBRARIES[job.task.type]
    this.#isFresh = false
    this.#hasBegun = false
    this.#job = job
    this.#started = performance.now()
    this.#limit = limitWork(this.pid, limitMs, () => {
      this.#fail(invalidRequest(`${nounOf(job.task)} takes too long to decode`, job.param))
    })
    job.signal.addEventListener('abort', this.#onAbort, { once: true })
    // The process could not start. Its `error` event is about to say so.
    if (this.pid === undefined) return
    const { data } = job.task
    const sent = data instanceof Uint8Array ? ({ type: 'bytes', length: data.length } as const) : this.#pass(data)
    if (sent === null) {
      this.#settle({ ok: null, message: 'The file of an input cannot be opened' })
      return
    }
    this.#child.send({ ...job.task, data: sent } satisfies DecoderMessage, (error) => {
      if (error) this.#child.kill('SIGKILL')
    })
    if (data instanceof Uint8Array) this.#bytes?.write(data)
  }

  /** Passes an open file to a process that may not open it. @returns null when it cannot be opened. */
  #pass({ path, length }: MediaFile): SentData | null {
    if (this.#files === null) return { type: 'file', path, length }
    let file: number
    try {
      file = openSync(path, 'r')
    } catch {
      return null
    }
    try {
      sendDescriptor(this.#files, file)
    } catch {
      // The process has ended, as its `close` event is about to say; or it is stuck.
      this.#child.kill('SIGKILL')
    } finally {
      closeSync(file)
    }
    return { type: 'open_file', length }
  }

  async end(): Promise<void> {
    this.#fail(new Error('The decoders are closed'))
    await this.#exited
  }

  readonly #onAbort = () => {
    if (this.#job) this.#fail(reasonOf(this.#job.signal))
  }

  /** Kills the process: there is no other way to stop a native decoder. */
  #fail(error: Error): void {
    this.#isEnding = true
    this.#take()?.reject(error)
    this.#child.kill('SIGKILL')
  }

  /** Retries or fails the job that the process had when it ended. No input can send its process a SIGKILL. */
  #lose(job: DecodeJob, signal: NodeJS.Signals | null): void {
    if (++job.losses < MOST_LOSSES) this.#owner.retry(job)
    else if (signal === 'SIGKILL') job.reject(cannotDecode(new Error('The system has killed the decoder')))
    else if (!this.#hasBegun) job.reject(cannotDecode(new Error('The decoder does not start')))
    else job.reject(invalidRequest(`${nounOf(job.task)} cannot be decoded`, job.param))
  }

  /** Lets the process take much memory when it is its turn. Rejects if the job is aborted first. */
  async #grant(): Promise<void> {
    const job = this.#job
    if (job === null) return
    const slot = await this.#large.take(job.organisation, job.signal)
    if (this.#job !== job) return slot[Symbol.dispose]()
    this.#slot = slot
    this.#child.send({ type: 'granted' } satisfies DecoderMessage, () => {})
  }

  #settle(reply: DecodeReply): void {
    const job = this.#take()
    if (!job) return
    if (reply.ok) job.resolve(reply.result)
    else if (reply.ok === null) job.reject((reply.mayPass ? cannotDecode : internalError)(new Error(reply.message)))
    else job.reject(invalidRequest(reply.message, job.param, { code: reply.code }))
    this.#owner.free(performance.now() - this.#started)
    if (this.#job !== null) return
    this.#idle = setTimeout(() => {
      if (this.#owner.isSpare()) void this.end()
    }, IDLE_MS)
  }

  #take(): DecodeJob | null {
    const job = this.#job
    this.#job = null
    // The limit's callback refers to the job, whose bytes would otherwise stay in memory until the next job.
    this.#limit?.[Symbol.dispose]()
    this.#limit = null
    this.#slot?.[Symbol.dispose]()
    this.#slot = null
    clearTimeout(this.#idle)
    job?.signal.removeEventListener('abort', this.#onAbort)
    return job
  }
}

function nounOf(task: DecodeTask): string {
  return task.type === 'page' ? `Page ${task.page} of the document` : `The ${task.type}`
}

/** The error when the system cannot start a process or thread, or kills it. */
export function cannotDecode(cause: unknown): Error {
  const message = `The server cannot decode media at the moment. Try again in ${RETRY_AFTER_S} seconds.`
  return serviceUnavailable(message, RETRY_AFTER_S, cause)
}

function start({ memoryBytes, preloads, program }: DecoderOptions, sockets: SocketPair | null): ChildProcess {
  try {
    const child = spawnConfined({
      program,
      args: preloads ? [PRELOADS] : [],
      stdio: ['ignore', 'ignore', 'ignore', 'ipc', 'pipe', ...(sockets === null ? [] : [sockets.theirs])],
      memoryBytes,
      isConfined: sockets !== null,
    })
    if (sockets !== null) closeSync(sockets.theirs)
    return child
  } catch (error) {
    if (sockets !== null) closePair(sockets)
    throw error
  }
}
