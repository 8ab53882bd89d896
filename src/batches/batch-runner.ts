import { randomBytes } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { LRUCache } from 'lru-cache'
import type { Logger } from 'pino'
import type { KeyOwners, Principal } from '../accounts/index.ts'
import type { Files } from '../files/index.ts'
import { ApiError, invalidRequest } from '../lib/errors.ts'
import type { BatchProblem, Database } from '../storage/index.ts'
import { BatchDesk, type LineResult, type OpenBatch, type TakenLine } from './batch-desk.ts'
import type { BatchPlace } from './batch-place.ts'
import { InputIndexer } from './index-input.ts'
import { requestOf } from './input-line.ts'
import { errorLine, type LineResponse, resultLine, writeOutputs } from './output-writer.ts'

/** A line as a request. */
export interface LineCall {
  readonly endpoint: string
  /** JSON. */
  readonly body: string
  /** Null where the key is not valid any more. */
  readonly principal: Principal | null
  readonly signal: AbortSignal
}

/** Answers a line as the endpoint would. @throws when the signal fires. */
export type LineRunner = (call: LineCall) => Promise<LineResponse>

export interface BatchRunnerOptions {
  readonly database: Database
  readonly files: Files
  readonly keys: KeyOwners
  readonly run: LineRunner
  /** Most lines that run at a time, of all batches together. */
  readonly parallel: number
  readonly place: BatchPlace
  readonly logger: Pick<Logger, 'info' | 'warn' | 'error'>
  /** How long a lease lasts that is not renewed. */
  readonly leaseMs?: number | undefined
  /** How long it takes to notice what other servers have changed. */
  readonly pollMs?: number | undefined
}

const LEASE_MS = 15_000
const POLL_MS = 2_000
/** Between renewals of leases, as a part of their time. */
const RENEWAL_SHARE = 1 / 4
/** Times that a line is tried while the model or a store is not available. */
const MOST_ATTEMPTS = 6
const FIRST_PAUSE_MS = 1_000
const LONGEST_PAUSE_MS = 30_000
/** How long a server leaves a batch alone whose input it cannot read. */
const UNREADABLE_MS = 60_000
/** How long the owner of a key is remembered. */
const OWNER_MS = 2_000
const EXPIRY_SWEEP_MS = 60_000

interface Running {
  readonly batch: OpenBatch
  readonly line: TakenLine
  readonly stop: AbortController
}

/**
 * Runs batches, as one of any number of servers on one database. It validates inputs, runs their lines a few at a time,
 * organisations in turn, and writes the outputs. See `BatchDesk` for what happens when servers die.
 */
export class BatchRunner {
  readonly #options: BatchRunnerOptions
  readonly #desk: BatchDesk
  readonly #indexer = new InputIndexer()
  readonly #running = new Set<Running>()
  /** Batches that this server validates or whose outputs it writes. */
  readonly #busy = new Map<string, Promise<void>>()
  readonly #results: LineResult[] = []
  #keeping: Promise<void> | null = null
  /** Batches in progress, by organisation; the first organisation is next. */
  #turns = new Map<string, OpenBatch[]>()
  /** Batches that had no line to take when it was last asked for one. */
  readonly #drained = new Set<string>()
  readonly #unreadable = new LRUCache<string, true>({ max: 1_000, ttl: UNREADABLE_MS })
  readonly #owners = new LRUCache<string, Promise<Principal | null | 'elsewhere'>>({ max: 1_000, ttl: OWNER_MS })
  readonly #stopping = new AbortController()
  #woken = Promise.withResolvers<void>()
  #filling: Promise<void> | null = null
  #ended: Promise<unknown> = Promise.resolve()
  #sweptAt = Number.NEGATIVE_INFINITY
  #isFailing = false

  constructor(options: BatchRunnerOptions) {
    this.#options = options
    const owner = `${options.place.id}-${randomBytes(8).toString('hex')}`
    this.#desk = new BatchDesk(options.database, owner, options.leaseMs ?? LEASE_MS)
  }

  start(): void {
    this.#ended = Promise.all([this.#follow(), this.#renew()])
  }

  /** Looks for work now. Call it when a batch has been created or cancelled here. */
  wake(): void {
    this.#woken.resolve()
  }

  /** Aborts the lines that run, and gives them back. What has been computed is kept. */
  async close(): Promise<void> {
    this.#stopping.abort()
    for (const { stop } of this.#running) stop.abort()
    this.wake()
    await this.#ended
    await Promise.all(this.#busy.values())
    await this.#filling
    while (this.#running.size > 0) await delay(5)
    await this.#keeping
    await this.#indexer.close()
  }

  get #isStopped(): boolean {
    return this.#stopping.signal.aborted
  }

  /** Looks at the open batches again and again. */
  async #follow(): Promise<void> {
    const { pollMs = POLL_MS, place } = this.#options
    let known = !place.alone
    while (!this.#isStopped) {
      this.#woken = Promise.withResolvers()
      const woken = this.#woken
      await this.#guarded(async () => {
        if (!known) await this.#desk.forget(`${place.id}-`)
        known = true
        await this.#look()
      })
      const timer = setTimeout(woken.resolve, pollMs)
      timer.unref()
      await woken.promise
      clearTimeout(timer)
    }
  }

  async #renew(): Promise<void> {
    const every = (this.#options.leaseMs ?? LEASE_MS) * RENEWAL_SHARE
    const { signal } = this.#stopping
    for (;;) {
      await delay(every, undefined, { signal, ref: false }).catch(() => {})
      if (signal.aborted) return
      const lines = [...this.#running].map(({ batch, line }) => ({ batch: batch.id, position: line.position }))
      await this.#guarded(() => this.#desk.renew(lines, [...this.#busy.keys()]))
    }
  }

  /** While the database is away, batches wait for it. */
  async #guarded(work: () => Promise<void>): Promise<void> {
    try {
      await work()
      this.#isFailing = false
    } catch (error) {
      const isAway = error instanceof ApiError && error.status === 503
      if (!this.#isFailing || !isAway)
        this.#options.logger.warn({ err: error }, 'Batches wait: something they need failed')
      this.#isFailing = true
    }
  }

  async #look(): Promise<void> {
    const { files } = this.#options
    if (performance.now() - this.#sweptAt > EXPIRY_SWEEP_MS) {
      this.#sweptAt = performance.now()
      await files.deleteExpired()
    }
    const turns = new Map<string, OpenBatch[]>()
    const open = await this.#desk.open()
    for (const batch of open) {
      if (this.#isStopped) return
      const { id, status, organisationId } = batch
      const isOver = batch.isOver && (status === 'validating' || status === 'in_progress')
      if (isOver) {
        await this.#desk.end(id, 'expired')
        this.wake()
      } else if (status === 'in_progress') {
        const others = turns.get(organisationId)
        if (others === undefined) turns.set(organisationId, [batch])
        else others.push(batch)
      } else if (!this.#busy.has(id) && !batch.isLeased && !this.#unreadable.has(id)) {
        if (status === 'validating') this.#begin(batch, () => this.#validate(batch))
        else if (status === 'finalizing' || status === 'cancelling') this.#begin(batch, () => this.#finish(batch))
        else this.#begin(batch, () => this.#desk.clear(id))
      }
      if (status !== 'in_progress') this.#abortLinesOf(batch)
    }
    this.#drained.clear()
    // Organisations keep their places.
    const places = [...this.#turns.keys()].filter((organisation) => turns.has(organisation))
    this.#turns = new Map([...new Set([...places, ...turns.keys()])].map((name) => [name, turns.get(name)!]))
    this.#fill()
  }

  /** Lines of a batch that has ended otherwise than by their own results. */
  #abortLinesOf({ id }: OpenBatch): void {
    for (const { batch, stop } of this.#running) if (batch.id === id) stop.abort()
  }

  /** Does something that only one server may do for a batch at a time. */
  #begin(batch: OpenBatch, work: () => Promise<unknown>): void {
    const { id } = batch
    const done = this.#guarded(async () => {
      if (!(await this.#desk.take(id))) return
      try {
        await work()
      } finally {
        await this.#desk.leave(id)
      }
    }).finally(() => {
      this.#busy.delete(id)
      this.wake()
    })
    this.#busy.set(id, done)
  }

  async #validate({ id, organisationId, inputFileId, endpoint }: OpenBatch): Promise<void> {
    const { files, logger } = this.#options
    const { signal } = this.#stopping
    const input = (await files.find(organisationId, inputFileId))
      ? await files.read(organisationId, inputFileId, null, signal)
      : 'deleted'
    if (input === 'deleted') return void (await this.#desk.reject(id, [DELETED]))
    if (input === null) return this.#leaveAlone(id)
    const index = await this.#indexer.index(input, endpoint)
    if (this.#isStopped) return
    if ('problems' in index) return void (await this.#desk.reject(id, index.problems))
    if (await this.#desk.begin(id, index.lines)) logger.info({ batch: id, lines: index.lines.length }, 'A batch begins')
  }

  /** The bytes are in a store of another server. Only servers that share it can run this batch. */
  #leaveAlone(id: string): void {
    if (!this.#unreadable.has(id)) {
      this.#options.logger.warn({ batch: id }, 'The input of a batch is not in the blob store of this server')
    }
    this.#unreadable.set(id, true)
  }

  async #finish(batch: OpenBatch): Promise<void> {
    const { files, logger } = this.#options
    const { id, ending } = batch
    if ([...this.#running].some((running) => running.batch.id === id)) return
    await this.#keepAll()
    if (await this.#desk.hasLiveLines(id)) return
    // The output belongs where the input is.
    if (ending !== 'failed' && batch.hasRun && !(await this.#canRead(batch))) return this.#leaveAlone(id)
    // A batch that never began has no results, though some of its lines may be there.
    const pieces = batch.hasRun ? this.#desk.lines(id) : NOTHING
    const outputs = await writeOutputs(pieces, ending ?? 'completed', files)
    const kept = await this.#desk.finish(batch, outputs, files)
    if (kept !== null) {
      logger.info({ batch: id, status: ending }, 'A batch has ended')
      await this.#desk.clear(id)
    }
  }

  /** Whether the input is in this server's store, or nowhere. */
  async #canRead({ organisationId, inputFileId }: OpenBatch): Promise<boolean> {
    const { files } = this.#options
    const file = await files.find(organisationId, inputFileId)
    if (file === null) return true
    const first = await files.read(organisationId, inputFileId, { first: 0, last: 0 }, this.#stopping.signal)
    first?.on('error', () => {}).destroy()
    return first !== null
  }

  /** Runs lines while there are places and lines. */
  #fill(): void {
    if (this.#filling !== null || this.#isStopped) return
    this.#filling = this.#guarded(() => this.#takeLines()).finally(() => {
      this.#filling = null
    })
  }

  async #takeLines(): Promise<void> {
    for (;;) {
      const free = this.#options.parallel - this.#running.size
      const batch = free > 0 && !this.#isStopped ? this.#next() : null
      if (batch === null) return
      const owner = await this.#ownerOf(batch)
      if (owner === 'elsewhere') {
        this.#drained.add(batch.id)
        continue
      }
      // With several organisations, each gets a part of the places.
      const share = Math.max(1, Math.floor(this.#options.parallel / this.#turns.size))
      const lines = await this.#desk.takeLines(batch.id, Math.min(free, share))
      if (lines.length === 0) this.#drained.add(batch.id)
      for (const line of lines) void this.#start(batch, line, owner)
    }
  }

  /** The oldest batch of the organisation whose turn it is. */
  #next(): OpenBatch | null {
    for (const [organisation, queue] of [...this.#turns]) {
      const batch = queue.find(({ id }) => !this.#drained.has(id) && !this.#unreadable.has(id))
      if (batch === undefined) continue
      this.#turns.delete(organisation)
      this.#turns.set(organisation, queue)
      return batch
    }
    return null
  }

  #ownerOf({ keyId, organisationId }: OpenBatch): Promise<Principal | null | 'elsewhere'> {
    const known = this.#owners.get(keyId)
    if (known !== undefined) return known
    const owner = this.#options.keys.ownerOf(keyId, organisationId)
    this.#owners.set(keyId, owner)
    owner.catch(() => this.#owners.delete(keyId))
    return owner
  }

  async #start(batch: OpenBatch, line: TakenLine, principal: Principal | null): Promise<void> {
    const running = { batch, line, stop: new AbortController() }
    this.#running.add(running)
    if (this.#isStopped) running.stop.abort()
    let result: Pick<LineResult, 'result' | 'failed'> | null = null
    try {
      result = await this.#resultOf(running, principal)
    } catch (error) {
      if (!running.stop.signal.aborted) {
        this.#options.logger.warn({ err: error, batch: batch.id }, 'A line of a batch could not be run yet')
        // Nothing is taken from this batch before the next look.
        this.#drained.add(batch.id)
      }
    }
    try {
      if (result === null) await this.#desk.returnLines(batch.id, [line.position])
      else await this.#keep({ batch: batch.id, position: line.position, ...result })
    } catch {
      // Its lease ends by itself, and it runs again.
    } finally {
      this.#running.delete(running)
      // It may have been the last line.
      if (![...this.#running].some((other) => other.batch.id === batch.id)) this.wake()
      this.#fill()
    }
  }

  /** @returns null for a line that was not run. */
  async #resultOf(
    { batch, line, stop: { signal } }: Running,
    principal: Principal | null,
  ): Promise<Pick<LineResult, 'result' | 'failed'> | null> {
    const { customId } = line
    if (this.#desk.isHopeless(line)) {
      return {
        result: errorLine(customId, 'server_error', 'The server stopped each time that it ran this line'),
        failed: true,
      }
    }
    const text = await this.#read(batch, line, signal)
    if (text === null) return null
    const { body, streams } = requestOf(text)
    const response = streams ? STREAMS : await this.#respond({ endpoint: batch.endpoint, body, principal, signal })
    if (response === null) return null
    return { result: resultLine(customId, response), failed: response.status >= 300 }
  }

  /** Waits for a model or a store that is not available. @returns null when it is to stop. */
  async #respond(call: LineCall): Promise<LineResponse | null> {
    for (let attempt = 1; ; attempt++) {
      const response = await this.#options.run(call)
      if (call.signal.aborted) return null
      if (response.status !== 503 || attempt === MOST_ATTEMPTS) return response
      const pause = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** (attempt - 1))
      await delay(pause, undefined, { signal: call.signal, ref: false })
    }
  }

  /** The text of a line; null where this server cannot read it, or nobody can. */
  async #read(batch: OpenBatch, { start, length }: TakenLine, signal: AbortSignal): Promise<string | null> {
    const { id, organisationId, inputFileId } = batch
    const range = { first: start, last: start + length - 1 }
    const stream = await this.#options.files.read(organisationId, inputFileId, range, signal)
    if (stream !== null) return Buffer.concat(await stream.toArray()).toString()
    if ((await this.#options.files.find(organisationId, inputFileId)) === null) {
      await this.#desk.end(id, 'failed', [DELETED])
      this.wake()
    } else this.#leaveAlone(id)
    return null
  }

  /** Results that come while others are being written are written together. */
  async #keep(result: LineResult): Promise<void> {
    this.#results.push(result)
    const before = this.#keeping
    if (before !== null) await before.catch(() => {})
    if (!this.#results.includes(result)) return this.#keeping ?? undefined
    await this.#keepAll()
  }

  #keepAll(): Promise<void> {
    this.#keeping ??= this.#write().finally(() => {
      this.#keeping = null
    })
    return this.#keeping
  }

  async #write(): Promise<void> {
    const byBatch = Map.groupBy(this.#results.splice(0), ({ batch }) => batch)
    for (const [id, results] of byBatch) await this.#persist(id, results)
  }

  /** Until they are kept: they are dropped only when their leases are lost, or when this server stops first. */
  async #persist(id: string, results: readonly LineResult[]): Promise<void> {
    for (;;) {
      try {
        return await this.#desk.keepResults(id, results)
      } catch (error) {
        if (!(error instanceof ApiError) || this.#isStopped) throw error
        await delay(FIRST_PAUSE_MS, undefined, { signal: this.#stopping.signal, ref: false })
      }
    }
  }
}

const DELETED: BatchProblem = {
  code: 'input_file_deleted',
  message: 'The input file has been deleted',
  param: 'input_file_id',
  line: null,
}

const STREAMS: LineResponse = {
  status: 400,
  requestId: '',
  body: JSON.stringify(invalidRequest("Invalid 'stream': lines of a batch cannot be streamed", 'stream').toBody()),
}

const NOTHING = {
  async *[Symbol.asyncIterator](): AsyncGenerator<never, void, void> {},
}
