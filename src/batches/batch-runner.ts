import { randomBytes } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { LRUCache } from 'lru-cache'
import type { Logger } from 'pino'
import type { KeyOwners, Principal } from '../accounts/index.ts'
import type { Files } from '../files/index.ts'
import { ApiError, invalidRequest } from '../lib/errors.ts'
import { FairSlots } from '../lib/fair-slots.ts'
import type { BatchProblem, Database } from '../storage/index.ts'
import { BatchDesk, type LineResult, type OpenBatch, type TakenLine } from './batch-desk.ts'
import type { BatchPlace } from './batch-place.ts'
import { InputIndexer } from './index-input.ts'
import { requestOf } from './input-line.ts'
import { errorLine, type LineResponse, resultLine, writeOutputs } from './output-writer.ts'
import { Pauses } from './pauses.ts'
import { ResultKeeper } from './result-keeper.ts'

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
  /** How long it takes to notice what other servers have changed. While no batch is open, it takes five times as long. */
  readonly pollMs?: number | undefined
  /** How long a batch is left alone at first when something that it needs has failed. */
  readonly pauseMs?: number | undefined
}

const LEASE_MS = 15_000
const POLL_MS = 2_000
const IDLE_POLLS = 5
/** Between renewals of leases, as a part of their time. */
const RENEWAL_SHARE = 1 / 4
const PAUSE_MS = 1_000
const LONGEST_PAUSE_MS = 60_000
/** How long the owner of a key is remembered. */
const OWNER_MS = 2_000
const EXPIRY_SWEEP_MS = 60_000
/** Batches whose inputs are read or whose outputs are written at a time. Each takes memory for all its lines. */
const MOST_BUSY = 4
/** Of an overloaded model: 503, and in Anthropic's shape 529. */
const UNAVAILABLE: ReadonlySet<number> = new Set([503, 529])

interface Running {
  readonly batch: OpenBatch
  readonly line: TakenLine
  readonly stop: AbortController
}

/** What became of a line that was begun. */
type Outcome =
  | Pick<LineResult, 'result' | 'failed'>
  /** It was stopped, or its bytes could not be read. It counts as not begun. */
  | 'not run'
  /** Its model or a store is not available. */
  | 'unavailable'

/**
 * Runs batches, as one of any number of servers on one database. It validates inputs, runs their lines a few at a time,
 * organisations in turn, and writes the outputs. See `BatchDesk` for what happens when servers die.
 */
export class BatchRunner {
  readonly #options: BatchRunnerOptions
  readonly #desk: BatchDesk
  readonly #indexer = new InputIndexer()
  readonly #running = new Set<Running>()
  /** Batches that this server validates or whose outputs it writes, or that wait for that. */
  readonly #busy = new Map<string, Promise<void>>()
  /** Those of them that it has leased. */
  readonly #leased = new Set<string>()
  readonly #slots = new FairSlots(MOST_BUSY)
  readonly #results: ResultKeeper
  readonly #pauses: Pauses
  /** Batches in progress, by organisation; the first organisation is next. */
  #turns = new Map<string, OpenBatch[]>()
  /** Batches that had no line to take when it was last asked for one. */
  readonly #drained = new Set<string>()
  readonly #owners = new LRUCache<string, Promise<Principal | null | 'elsewhere'>>({ max: 1_000, ttl: OWNER_MS })
  readonly #stopping = new AbortController()
  #woken = Promise.withResolvers<void>()
  #filling: Promise<void> | null = null
  #ended: Promise<unknown> = Promise.resolve()
  #sweptAt = Number.NEGATIVE_INFINITY
  #isFailing = false
  /** Whether there was no open batch when it last looked. */
  #isIdle = false

  constructor(options: BatchRunnerOptions) {
    this.#options = options
    const owner = `${options.place.id}-${randomBytes(8).toString('hex')}`
    this.#desk = new BatchDesk(options.database, owner, options.leaseMs ?? LEASE_MS)
    this.#results = new ResultKeeper(this.#desk, this.#stopping.signal)
    this.#pauses = new Pauses(options.pauseMs ?? PAUSE_MS, LONGEST_PAUSE_MS)
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
    await this.#results.flush().catch(() => {})
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
      const timer = setTimeout(woken.resolve, this.#isIdle ? pollMs * IDLE_POLLS : pollMs)
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
      await this.#guarded(() => this.#desk.renew(lines, [...this.#leased]))
    }
  }

  /** While the database is away, batches wait for it. */
  async #guarded(work: () => Promise<void>): Promise<void> {
    try {
      await work()
      this.#isFailing = false
    } catch (error) {
      if (this.#isStopped) return
      const isAway = error instanceof ApiError && error.status === 503
      if (!this.#isFailing || !isAway)
        this.#options.logger.warn({ err: error }, 'Batches wait: something they need failed')
      this.#isFailing = true
      this.#isIdle = false
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
    this.#isIdle = open.length === 0
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
      } else this.#prepare(batch)
      if (status !== 'in_progress') this.#abortLinesOf(batch)
    }
    this.#drained.clear()
    // Organisations keep their places.
    const places = [...this.#turns.keys()].filter((organisation) => turns.has(organisation))
    this.#turns = new Map([...new Set([...places, ...turns.keys()])].map((name) => [name, turns.get(name)!]))
    this.#fill()
  }

  /** Whether this server runs lines of a batch. */
  #isRunning(id: string): boolean {
    for (const { batch } of this.#running) if (batch.id === id) return true
    return false
  }

  /** Lines of a batch that has ended otherwise than by their own results. */
  #abortLinesOf({ id }: OpenBatch): void {
    for (const { batch, stop } of this.#running) if (batch.id === id) stop.abort()
  }

  /** Does what only one server may do for a batch at a time, if nobody does it. */
  #prepare(batch: OpenBatch): void {
    const { id } = batch
    // The last of its lines wakes this server when it has ended.
    if (this.#busy.has(id) || batch.isLeased || this.#pauses.has(id) || this.#isRunning(id)) return
    const done = this.#guardedFor(id, () => this.#inTurn(batch)).then((hasChanged) => {
      this.#busy.delete(id)
      if (hasChanged) this.wake()
    })
    this.#busy.set(id, done)
  }

  /** @returns whether there may be something to do for the batch at once. */
  async #inTurn(batch: OpenBatch): Promise<boolean> {
    const { id, organisationId, status } = batch
    using _slot = await this.#slots.take(organisationId, this.#stopping.signal)
    if (!(await this.#desk.take(id, status))) return false
    this.#leased.add(id)
    try {
      if (status === 'validating') return await this.#validate(batch)
      if (status === 'finalizing' || status === 'cancelling') return await this.#finish(batch)
      await this.#desk.clear(id)
      return false
    } finally {
      this.#leased.delete(id)
      await this.#desk.leave(id)
    }
  }

  /** When something fails that a batch needs, the batch is left alone for a while. */
  async #guardedFor(id: string, work: () => Promise<boolean>): Promise<boolean> {
    try {
      const hasChanged = await work()
      if (hasChanged) this.#pauses.end(id)
      return hasChanged
    } catch (error) {
      this.#pause(id, error)
      return false
    }
  }

  #pause(id: string, error: unknown): void {
    if (this.#isStopped) return
    const ms = this.#pauses.add(id)
    if (ms !== null) {
      this.#options.logger.warn({ err: error, batch: id, pauseMs: ms }, 'A batch waits: something it needs failed')
    }
  }

  async #validate({ id, organisationId, inputFileId, endpoint }: OpenBatch): Promise<boolean> {
    const { files, logger } = this.#options
    const { signal } = this.#stopping
    const input = (await files.find(organisationId, inputFileId))
      ? await files.read(organisationId, inputFileId, null, signal)
      : 'deleted'
    if (input === 'deleted') {
      await this.#desk.reject(id, [DELETED])
      return true
    }
    if (input === null) throw new NotInStore()
    const index = await this.#indexer.index(input, endpoint)
    if ('problems' in index) await this.#desk.reject(id, index.problems)
    else if (await this.#desk.begin(id, index.lines)) {
      logger.info({ batch: id, lines: index.lines.length }, 'A batch begins')
    }
    return true
  }

  async #finish(batch: OpenBatch): Promise<boolean> {
    const { files, logger } = this.#options
    const { id, ending } = batch
    await this.#results.flush()
    if (await this.#desk.hasLiveLines(id)) return false
    // The output belongs where the input is.
    if (ending !== 'failed' && batch.hasRun && !(await this.#canRead(batch))) throw new NotInStore()
    // A batch that never began has no results, though some of its lines may be there.
    const pieces = batch.hasRun ? this.#desk.lines(id) : NOTHING
    const outputs = await writeOutputs(pieces, ending ?? 'completed', files)
    const kept = await this.#desk.finish(batch, outputs, files)
    if (kept !== null) {
      logger.info({ batch: id, status: ending }, 'A batch has ended')
      await this.#desk.clear(id)
    }
    return true
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
      const batch = queue.find(({ id }) => !this.#drained.has(id) && !this.#pauses.has(id))
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
    const { id } = batch
    const running = { batch, line, stop: new AbortController() }
    this.#running.add(running)
    if (this.#isStopped) running.stop.abort()
    const outcome = await this.#outcomeOf(running, principal)
    try {
      await this.#settle(running, outcome)
    } catch {
      // Its lease ends by itself, and it runs again.
    } finally {
      this.#running.delete(running)
      // It may have been the last line.
      if (!this.#isRunning(id)) this.wake()
      this.#fill()
    }
  }

  async #settle({ batch: { id }, line }: Running, outcome: Outcome): Promise<void> {
    const { position } = line
    if (outcome === 'not run') await this.#desk.returnLine(id, position)
    else if (outcome === 'unavailable') await this.#desk.restLine(id, line, this.#options.pauseMs ?? PAUSE_MS)
    else {
      this.#pauses.end(id)
      await this.#results.keep({ batch: id, position, ...outcome })
    }
  }

  async #outcomeOf(running: Running, principal: Principal | null): Promise<Outcome> {
    try {
      return await this.#run(running, principal)
    } catch (error) {
      if (!running.stop.signal.aborted) this.#pause(running.batch.id, error)
      return 'not run'
    }
  }

  async #run({ batch, line, stop: { signal } }: Running, principal: Principal | null): Promise<Outcome> {
    const { customId } = line
    if (this.#desk.isHopeless(line)) {
      return {
        result: errorLine(customId, 'server_error', 'The server stopped each time that it ran this line'),
        failed: true,
      }
    }
    const text = await this.#read(batch, line, signal)
    if (text === null) return 'not run'
    const { body, streams } = requestOf(text)
    const call = { endpoint: batch.endpoint, body, principal, signal }
    const response = streams ? STREAMS : await this.#options.run(call)
    if (signal.aborted) return 'not run'
    if (UNAVAILABLE.has(response.status) && !this.#desk.isLastTry(line)) {
      this.#pauses.add(batch.id)
      return 'unavailable'
    }
    return { result: resultLine(customId, response), failed: response.status >= 300 }
  }

  /** The text of a line; null where nobody can read it. */
  async #read(batch: OpenBatch, { start, length }: TakenLine, signal: AbortSignal): Promise<string | null> {
    const { id, organisationId, inputFileId } = batch
    const range = { first: start, last: start + length - 1 }
    const stream = await this.#options.files.read(organisationId, inputFileId, range, signal)
    if (stream !== null) return Buffer.concat(await stream.toArray()).toString()
    if ((await this.#options.files.find(organisationId, inputFileId)) !== null) throw new NotInStore()
    await this.#desk.end(id, 'failed', [DELETED])
    return null
  }
}

/** Only servers that share the store of the input can run the batch. */
class NotInStore extends Error {
  constructor() {
    super('The input is not in the blob store of this server')
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
