import { type ChildProcess, fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { invalidRequest } from '../errors.ts'
import type { ImageLimits } from '../models/card.ts'
import type { GridRegion } from './coordinates.ts'
import type { DecodeReply, DecodeRequest } from './decoder-protocol.ts'
import type { RgbImage, Size } from './pixels.ts'

const TIMEOUT_MS = 20_000
/** Enough for one large picture at a time per core of a small machine; the rest waits. */
const MAX_RUNNING = 2

interface Job {
  readonly request: DecodeRequest
  readonly param: string
  readonly resolve: (decoded: { image: RgbImage; original: Size }) => void
  readonly reject: (error: Error) => void
  timer?: NodeJS.Timeout
  /** Was in the process when it crashed beside others: must prove itself alone. */
  suspect?: boolean
}

/**
 * Decodes pictures in a child process. A picture that crashes the process, exhausts it or takes too long costs that
 * picture a 400 and the process a restart; its neighbours in the process are decoded again.
 */
export class ImageDecoder {
  #child: ChildProcess | undefined
  #closed = false
  #nextId = 0
  /** The child was killed for one picture's sake; the others in it are innocent. */
  #killed = false
  readonly #waiting: Job[] = []
  readonly #running = new Map<number, Job>()

  /** @throws ApiError 400 naming `param` when the bytes do not decode. */
  decode(
    bytes: Uint8Array,
    limits: ImageLimits,
    param: string,
    signal: AbortSignal,
    region: GridRegion | null = null,
  ): Promise<{ image: RgbImage; original: Size }> {
    signal.throwIfAborted()
    if (this.#closed) throw new Error('The image decoder is closed')
    return new Promise((resolve, reject) => {
      const job: Job = { request: { id: this.#nextId++, bytes, limits, region }, param, resolve, reject }
      this.#waiting.push(job)
      signal.addEventListener('abort', () => this.#abandon(job, signal.reason), { once: true })
      this.#pump()
    })
  }

  /** Of the process, while there is one. */
  get pid(): number | undefined {
    return this.#child?.pid
  }

  /** Starts the process ahead of the first picture. */
  warmUp(): void {
    this.#child ??= this.#spawn()
  }

  async close(): Promise<void> {
    this.#closed = true
    const child = this.#child
    if (!child || child.exitCode !== null) return
    const gone = new Promise((resolve) => child.once('exit', resolve))
    child.kill('SIGKILL')
    await gone
  }

  #pump(): void {
    // A child that is being killed takes no more work; its exit pumps again.
    while (this.#running.size < MAX_RUNNING && !this.#killed) {
      const next = this.#waiting[0]
      const alone = next?.suspect || [...this.#running.values()].some((job) => job.suspect)
      if (!next || (alone && this.#running.size > 0)) return
      const job = this.#waiting.shift()!
      this.#running.set(job.request.id, job)
      job.timer = setTimeout(() => this.#kill(job, 'The picture takes too long to decode'), TIMEOUT_MS)
      this.warmUp()
      this.#child?.send(job.request)
    }
  }

  #spawn(): ChildProcess {
    const child = fork(fileURLToPath(new URL('./decoder-process.ts', import.meta.url)), {
      serialization: 'advanced',
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    })
    child.on('message', (reply: DecodeReply) => this.#settle(reply))
    child.on('error', () => child.kill('SIGKILL'))
    child.once('exit', () => {
      if (this.#child === child) this.#child = undefined
      this.#onExit()
    })
    return child
  }

  #settle(reply: DecodeReply): void {
    const job = this.#take(reply.id)
    if (!job) return
    if (reply.ok) job.resolve({ image: reply.image, original: reply.original })
    else job.reject(invalidRequest(reply.message, job.param))
    this.#pump()
  }

  /** The process is gone: with one picture in it, that picture did it; with several, each is tried again alone. */
  #onExit(): void {
    const lost = [...this.#running.values()]
    for (const job of lost) this.#take(job.request.id)
    if (this.#closed) {
      for (const job of [...lost, ...this.#waiting.splice(0)]) job.reject(new Error('The image decoder is closed'))
      return
    }
    if (lost.length === 1 && !this.#killed) {
      lost[0]!.reject(invalidRequest('The picture cannot be decoded', lost[0]!.param))
    } else {
      for (const job of lost) job.suspect = !this.#killed
      this.#waiting.unshift(...lost)
    }
    this.#killed = false
    this.#pump()
  }

  #kill(job: Job, reason: string): void {
    this.#take(job.request.id)
    job.reject(invalidRequest(reason, job.param))
    this.#killed = this.#child?.kill('SIGKILL') ?? false
  }

  #abandon(job: Job, reason: unknown): void {
    const place = this.#waiting.indexOf(job)
    if (place >= 0) this.#waiting.splice(place, 1)
    job.reject(reason instanceof Error ? reason : new Error('Aborted', { cause: reason }))
  }

  #take(id: number): Job | undefined {
    const job = this.#running.get(id)
    this.#running.delete(id)
    clearTimeout(job?.timer)
    return job
  }
}
