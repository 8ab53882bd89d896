import { randomBytes } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from 'pino'
import { ApiError } from '../lib/errors/errors.ts'
import { FairSlots } from '../lib/fair-slots.ts'
import type { Database } from '../storage/database.ts'
import { BatchDesk, type OpenBatch } from './batch-desk.ts'
import type { BatchPlace } from './batch-place.ts'
import { indexedInput } from './index-input.ts'
import { LineRunner, type LineRunnerOptions } from './line-runner.ts'
import { writeOutputs } from './output-writer.ts'
import { Pauses } from './pauses.ts'
import { INPUT_DELETED, NotInStore } from './request-bytes.ts'

export interface BatchRunnerOptions extends Pick<LineRunnerOptions, 'files' | 'keys' | 'run' | 'parallel'> {
  readonly database: Database
  readonly place: BatchPlace
  readonly logger: Pick<Logger, 'info' | 'warn' | 'error'>
  /** How long a lease lasts unless it is renewed. */
  readonly leaseMs?: number | undefined
  /** How long it takes to notice changes by other servers; five times as long while no batch is open. */
  readonly pollMs?: number | undefined
  /** The first pause of a batch when something that it needs has failed. */
  readonly pauseMs?: number | undefined
}

const LEASE_MS = 15_000
const POLL_MS = 2_000
const IDLE_POLLS = 5
/** Interval between renewals of leases, as a share of `leaseMs`. */
const RENEWAL_SHARE = 1 / 4
const PAUSE_MS = 1_000
const LONGEST_PAUSE_MS = 60_000
/** The most batches that are validated or written at a time. Each takes memory for all its lines. */
const MOST_BUSY = 4

/**
 * Runs batches, as one of any number of servers on one database. It validates inputs, runs their lines a few at a time,
 * organisations in turn, and writes the outputs. See `BatchDesk` for what happens when servers die.
 */
export class BatchRunner {
  readonly #options: BatchRunnerOptions
  readonly #desk: BatchDesk
  readonly #lines: LineRunner
  /** Batches that this server validates or whose outputs it writes, and those that wait for their turn. */
  readonly #busy = new Map<string, Promise<void>>()
  /** Batches in `#busy` that it has leased. */
  readonly #leased = new Set<string>()
  readonly #slots = new FairSlots(MOST_BUSY)
  readonly #pauses: Pauses
  readonly #stopping = new AbortController()
  #woken = Promise.withResolvers<void>()
  #ended: Promise<unknown> = Promise.resolve()
  #isFailing = false
  /** Whether there was no open batch when it last looked. */
  #isIdle = false

  constructor(options: BatchRunnerOptions) {
    this.#options = options
    const owner = `${options.place.id}-${randomBytes(8).toString('hex')}`
    this.#desk = new BatchDesk(options.database, owner, options.leaseMs ?? LEASE_MS)
    const { files, keys, run, parallel, pauseMs = PAUSE_MS } = options
    this.#pauses = new Pauses(pauseMs, LONGEST_PAUSE_MS)
    this.#lines = new LineRunner({
      ...{ files, keys, run, parallel, pauseMs },
      desk: this.#desk,
      pauses: this.#pauses,
      stopping: this.#stopping.signal,
      onDone: () => this.wake(),
      onFailure: (batch, error) => this.#pause(batch, error),
      guarded: (work) => this.#guarded(work),
    })
  }

  start(): void {
    this.#ended = Promise.all([this.#follow(), this.#renew()])
  }

  /** Looks for work now. Call it when a batch has been created or cancelled here. */
  wake(): void {
    this.#woken.resolve()
  }

  /** Aborts running lines and gives them back. Results that have been computed are kept. */
  async close(): Promise<void> {
    this.#stopping.abort()
    this.wake()
    await this.#lines.close()
    await this.#ended
    await Promise.all(this.#busy.values())
  }

  get #isStopped(): boolean {
    return this.#stopping.signal.aborted
  }

  /** Polls the open batches. */
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
      await this.#guarded(() => this.#lines.renew())
      await this.#guarded(() => this.#desk.renew([...this.#leased]))
    }
  }

  /** Logs failures of the work. While the database is away, batches wait for it. */
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
    const running: OpenBatch[] = []
    const open = await this.#desk.open()
    this.#isIdle = open.length === 0
    for (const batch of open) {
      if (this.#isStopped) return
      const { id, status } = batch
      const isOver = batch.isOver && (status === 'validating' || status === 'in_progress')
      if (isOver) {
        await this.#desk.end(id, 'expired')
        this.wake()
      } else if (status === 'in_progress') running.push(batch)
      else this.#prepare(batch)
      if (status !== 'in_progress') await this.#lines.abort(id)
    }
    await this.#lines.follow(Map.groupBy(running, ({ organisationId }) => organisationId))
  }

  /** Starts the work on a batch that only one server may do at a time, unless another one does it. */
  #prepare(batch: OpenBatch): void {
    const { id } = batch
    // The last of its lines wakes this server when it has ended.
    if (this.#busy.has(id) || batch.isLeased || this.#pauses.has(id) || this.#lines.holds(id)) return
    this.#busy.set(id, this.#attempt(batch))
  }

  /** Pauses the batch if something that it needs fails. */
  async #attempt(batch: OpenBatch): Promise<void> {
    const { id } = batch
    let hasChanged = false
    try {
      hasChanged = await this.#inTurn(batch)
      if (hasChanged) this.#pauses.end(id)
    } catch (error) {
      this.#pause(id, error)
    }
    this.#busy.delete(id)
    if (hasChanged) this.wake()
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
      await this.#desk.reject(id, [INPUT_DELETED])
      return true
    }
    if (input === null) throw new NotInStore()
    await using index = await indexedInput(input, endpoint, signal)
    if ('problems' in index) await this.#desk.reject(id, index.problems)
    else if (await this.#desk.begin(id, index.parts)) logger.info({ batch: id }, 'A batch begins')
    return true
  }

  async #finish(batch: OpenBatch): Promise<boolean> {
    const { files, logger } = this.#options
    const { id, ending } = batch
    await this.#lines.flush()
    if (await this.#desk.lines.hasLive(id)) return false
    // The output belongs in the store of the input.
    if (ending !== 'failed' && batch.hasRun && !(await this.#canRead(batch))) throw new NotInStore()
    // A batch that never began has no results, although some of its lines may be stored.
    const pieces = batch.hasRun ? this.#desk.lines.kept(id) : []
    const outputs = await writeOutputs(pieces, ending ?? 'completed', files)
    const kept = await this.#desk.finish(batch, outputs, files)
    if (kept !== null) {
      logger.info({ batch: id, status: ending }, 'A batch has ended')
      await this.#desk.clear(id)
    }
    return true
  }

  /** Whether the input is in this server's store, or was deleted. */
  async #canRead({ organisationId, inputFileId }: OpenBatch): Promise<boolean> {
    const { files } = this.#options
    const file = await files.find(organisationId, inputFileId)
    if (file === null) return true
    const first = await files.read(organisationId, inputFileId, { first: 0, last: 0 }, this.#stopping.signal)
    first?.on('error', () => {}).destroy()
    return first !== null
  }
}
