import { setTimeout as delay, setImmediate as nextTurn } from 'node:timers/promises'
import { LRUCache } from 'lru-cache'
import type { KeyOwners } from '../accounts/authenticator.ts'
import type { Principal } from '../accounts/principal.ts'
import type { Files } from '../files/files.ts'
import { getOrMake } from '../lib/get-or-make.ts'
import { sumOf } from '../lib/sum.ts'
import type { BatchDesk, OpenBatch } from './batch-desk.ts'
import type { LineResult, TakenLine } from './line-desk.ts'
import { errorLine, type LineResponse, resultLine, STREAMS } from './output-writer.ts'
import type { Pauses } from './pauses.ts'
import { INPUT_DELETED, type RequestBytes, requestBytes } from './request-bytes.ts'
import { ResultKeeper } from './result-keeper.ts'

/** A line as a request. */
export interface LineRequest {
  readonly endpoint: string
  /** JSON. */
  readonly body: Buffer
  /** Null if the key is no longer valid. */
  readonly principal: Principal | null
  readonly signal: AbortSignal
}

/** Answers a line as the endpoint would. @throws when the signal fires. */
export type LineCaller = (line: LineRequest) => Promise<LineResponse>

export interface LineRunnerOptions {
  readonly desk: BatchDesk
  readonly files: Files
  readonly keys: KeyOwners
  readonly run: LineCaller
  /** The most lines that run at a time, of all batches together. */
  readonly parallel: number
  readonly pauses: Pauses
  /** The first rest of a line whose model is not available. */
  readonly pauseMs: number
  /** Fires when this server stops. */
  readonly stopping: AbortSignal
  /** Called when a batch has no more lines here. */
  readonly onDone: () => void
  /** Called when something that a batch needs has failed. */
  readonly onFailure: (batch: string, error: unknown) => void
  /** Runs work whose failure concerns all batches, and handles the failure. */
  readonly guarded: (work: () => Promise<void>) => Promise<void>
}

/** How long the owner of a key is cached. */
const OWNER_MS = 2_000
/** If the lines taken last have ended within this time, more are taken the next time. */
const QUICK_MS = 500
/** The most lines that wait here for a place, of all batches. */
const MOST_WAITING = 500
/** How long they wait before they are given back: another server may have a place for them. */
const GIVE_BACK_MS = 2_000
/** Larger results, in UTF-8, become errors: the size of a value in the database is limited. */
const MOST_RESULT_BYTES = 32 * 2 ** 20
/** Statuses of an overloaded model: 503, and in Anthropic's shape 529. */
const UNAVAILABLE: ReadonlySet<number> = new Set([503, 529])

/** A line that is leased to this server. */
interface HeldLine {
  readonly line: TakenLine
  readonly bytes: RequestBytes
  readonly stop: AbortController
}

/** The lines of a batch that this server holds. */
interface HeldBatch {
  readonly batch: OpenBatch
  /** All of its lines here, until their results are written. */
  readonly lines: Set<HeldLine>
  /** Those that have not begun. */
  readonly waiting: HeldLine[]
  takenAt: number
}

/** The outcome of a line that was begun. */
type Outcome =
  | Pick<LineResult, 'result' | 'failed'>
  /** It was stopped, or its bytes could not be read. It counts as not begun. */
  | 'not run'
  /** Its model or a store is not available. */
  | 'unavailable'

/**
 * Runs lines, a few at a time, organisations in turn. Lines that end at once, such as invalid requests, are taken, read and
 * settled many at a time: a transaction for each would take a hundred times as long as the line.
 */
export class LineRunner {
  readonly #options: LineRunnerOptions
  readonly #results: ResultKeeper
  readonly #held = new Map<string, HeldBatch>()
  /** When lines of a batch were last taken, and how many. */
  readonly #taken = new LRUCache<string, { readonly at: number; readonly count: number }>({ max: 1_000 })
  /** Batches in progress, by organisation; the first organisation is next. */
  #turns = new Map<string, readonly OpenBatch[]>()
  /** Batches that had no line to take when they were last asked for one. */
  readonly #drained = new Set<string>()
  readonly #owners = new LRUCache<string, Promise<Principal | null | 'elsewhere'>>({ max: 1_000, ttl: OWNER_MS })
  #running = 0
  #filling: Promise<void> | null = null

  constructor(options: LineRunnerOptions) {
    this.#options = options
    this.#results = new ResultKeeper(options.desk.lines, options.stopping)
  }

  /** Renews the leases of all lines here. Those that another server has taken stop: that one charges for them too. */
  async renew(): Promise<void> {
    const held = [...this.#held].flatMap(([batch, { lines }]) =>
      [...lines].map(({ line: { position }, stop }) => ({ batch, position, stop })),
    )
    for (const { stop } of await this.#options.desk.lines.renew(held)) stop.abort()
  }

  holds(batch: string): boolean {
    return this.#held.has(batch)
  }

  /** Takes note of the batches in progress, by organisation. */
  async follow(open: ReadonlyMap<string, readonly OpenBatch[]>): Promise<void> {
    this.#drained.clear()
    // Organisations keep their places.
    const places = [...this.#turns.keys()].filter((organisation) => open.has(organisation))
    this.#turns = new Map([...new Set([...places, ...open.keys()])].map((name) => [name, open.get(name)!]))
    for (const held of [...this.#held.values()]) {
      if (performance.now() - held.takenAt > GIVE_BACK_MS) await this.#giveBack(held)
    }
    this.fill()
  }

  /** Stops the lines of a batch that has ended for another reason than their results. */
  async abort(batch: string): Promise<void> {
    const held = this.#held.get(batch)
    if (held === undefined) return
    for (const { stop } of held.lines) stop.abort()
    await this.#giveBack(held)
  }

  /** Resolves when all results up to now are written. */
  flush(): Promise<void> {
    return this.#results.flush()
  }

  /** Aborts running lines and gives all back. Results that have been computed are kept. */
  async close(): Promise<void> {
    for (const { lines } of this.#held.values()) for (const { stop } of lines) stop.abort()
    await this.#filling
    // In parallel: otherwise a database that hangs delays the end once for each batch.
    await Promise.all([...this.#held.values()].map((held) => this.#giveBack(held).catch(() => {})))
    while (this.#held.size > 0) await delay(5)
    await this.#results.flush().catch(() => {})
  }

  /** Runs lines while there are places and lines. */
  fill(): void {
    if (this.#filling !== null || this.#options.stopping.aborted || this.#free === 0) return
    this.#filling = this.#options
      .guarded(() => this.#fill())
      .finally(() => {
        this.#filling = null
      })
  }

  get #free(): number {
    return this.#results.isFull ? 0 : Math.max(0, this.#options.parallel - this.#running)
  }

  async #fill(): Promise<void> {
    const { desk, files, parallel, stopping } = this.#options
    while (this.#free > 0 && !stopping.aborted) {
      const batch = this.#next()
      if (batch === null) return
      const owner = await this.#ownerOf(batch)
      if (owner === 'elsewhere') {
        this.#drained.add(batch.id)
        await this.abort(batch.id)
        continue
      }
      // Several organisations share the places equally.
      const share = Math.min(this.#free, Math.max(1, Math.floor(parallel / this.#turns.size)))
      if (!this.#held.get(batch.id)?.waiting.length) {
        const lines = await desk.lines.take(batch.id, this.#countOf(batch, share))
        if (lines.length === 0) this.#drained.add(batch.id)
        else this.#hold(batch, lines, requestBytes(files, batch, lines, stopping))
      }
      const held = this.#held.get(batch.id)
      for (const line of held?.waiting.splice(0, share) ?? []) void this.#start(held!, line, owner)
    }
  }

  /** How many lines of a batch to take: twice as many as the last time, if those have ended quickly. */
  #countOf({ id }: OpenBatch, share: number): number {
    const now = performance.now()
    const last = this.#taken.get(id) ?? { at: Number.NEGATIVE_INFINITY, count: 0 }
    const wanted = now - last.at < QUICK_MS ? 2 * last.count : Math.floor(last.count / 2)
    const waiting = sumOf([...this.#held.values()], (held) => held.waiting.length)
    const count = Math.max(share, Math.min(wanted, MOST_WAITING - waiting))
    this.#taken.set(id, { at: now, count })
    return count
  }

  #hold(batch: OpenBatch, lines: readonly TakenLine[], bytes: readonly RequestBytes[]): void {
    const held = getOrMake(this.#held, batch.id, () => ({ batch, lines: new Set<HeldLine>(), waiting: [], takenAt: 0 }))
    held.takenAt = performance.now()
    for (const [index, line] of lines.entries()) {
      const one = { line, bytes: bytes[index]!, stop: new AbortController() }
      held.lines.add(one)
      held.waiting.push(one)
    }
  }

  #letGo({ batch, lines }: HeldBatch, gone: readonly HeldLine[]): void {
    for (const line of gone) lines.delete(line)
    if (lines.size > 0) return
    this.#held.delete(batch.id)
    // The last line of the batch may have ended.
    this.#options.onDone()
  }

  /** Gives waiting lines back, for other servers. */
  async #giveBack(held: HeldBatch): Promise<void> {
    const lines = held.waiting.splice(0)
    if (lines.length === 0) return
    try {
      await this.#options.desk.lines.giveBack(
        held.batch.id,
        lines.map(({ line }) => line),
      )
    } finally {
      this.#letGo(held, lines)
    }
  }

  /** The oldest batch of the organisation whose turn it is. */
  #next(): OpenBatch | null {
    for (const [organisation, queue] of [...this.#turns]) {
      const batch = queue.find(({ id }) => {
        const hasLines = !this.#drained.has(id) || (this.#held.get(id)?.waiting.length ?? 0) > 0
        return hasLines && !this.#options.pauses.has(id)
      })
      if (batch === undefined) continue
      this.#turns.delete(organisation)
      this.#turns.set(organisation, queue)
      return batch
    }
    return null
  }

  #ownerOf({ keyId, organisationId }: OpenBatch): Promise<Principal | null | 'elsewhere'> {
    return getOrMake(this.#owners, keyId, () => {
      const owner = this.#options.keys.ownerOf(keyId, organisationId)
      owner.catch(() => this.#owners.delete(keyId))
      return owner
    })
  }

  async #start(held: HeldBatch, line: HeldLine, principal: Principal | null): Promise<void> {
    this.#running++
    if (this.#options.stopping.aborted) line.stop.abort()
    // Lines that end at once must not block the event loop for others.
    await nextTurn()
    const outcome = await this.#outcomeOf(held.batch, line, principal)
    this.#running--
    this.fill()
    try {
      await this.#settle(held.batch.id, line.line, outcome)
    } catch {
      // Its lease runs out, and the line runs again.
    } finally {
      this.#letGo(held, [line])
      this.fill()
    }
  }

  async #settle(batch: string, line: TakenLine, outcome: Outcome): Promise<void> {
    const { desk, pauses, pauseMs } = this.#options
    if (outcome === 'not run') await desk.lines.giveBack(batch, [line])
    else if (outcome === 'unavailable') await desk.lines.rest(batch, line, pauseMs)
    else {
      pauses.end(batch)
      await this.#results.keep({ batch, position: line.position, customId: line.customId, ...outcome })
    }
  }

  async #outcomeOf(batch: OpenBatch, line: HeldLine, principal: Principal | null): Promise<Outcome> {
    try {
      return await this.#run(batch, line, principal)
    } catch (error) {
      if (!line.stop.signal.aborted) this.#options.onFailure(batch.id, error)
      return 'not run'
    }
  }

  async #run(batch: OpenBatch, { line, bytes, stop }: HeldLine, principal: Principal | null): Promise<Outcome> {
    const { desk, pauses, run } = this.#options
    const { customId } = line
    const { signal } = stop
    const failed = (message: string) => ({ result: errorLine(customId, 'server_error', message), failed: true })
    if (desk.lines.isHopeless(line)) return failed('The server stopped each time that it ran this line')
    signal.throwIfAborted()
    const body = await bytes()
    if (body === null) {
      await desk.end(batch.id, 'failed', [INPUT_DELETED])
      return 'not run'
    }
    const response = line.streams ? STREAMS : await run({ endpoint: batch.endpoint, body, principal, signal })
    if (signal.aborted) return 'not run'
    if (UNAVAILABLE.has(response.status) && !desk.lines.isLastTry(line)) {
      pauses.add(batch.id)
      return 'unavailable'
    }
    const result = resultLine(customId, response)
    if (Buffer.byteLength(result) > MOST_RESULT_BYTES)
      return failed(`The response is larger than ${MOST_RESULT_BYTES / 2 ** 20} MiB`)
    return { result, failed: response.status >= 300 }
  }
}
