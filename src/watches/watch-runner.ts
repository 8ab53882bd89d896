import { randomBytes } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from 'pino'
import type { Files } from '../files/files.ts'
import { ApiError, serviceUnavailable } from '../lib/errors/errors.ts'
import { FairSlots } from '../lib/fair-slots.ts'
import { GuardedAgent, hostSet, type Refusal } from '../lib/guarded-agent.ts'
import type { SecretBox } from '../lib/secrets/secret-box.ts'
import type { Database } from '../storage/database.ts'
import { LiveWatch, type LiveWatchOptions } from './live-watch.ts'
import { type LookReport, type Picture, type Pushed, type PushedFrame, pushedFrame } from './look.ts'
import type { WatchReport } from './look-counts.ts'
import { type HeldWatch, WatchDesk } from './watch-desk.ts'
import type { WatchMeter } from './watch-meter.ts'
import type { Watch } from './watches.ts'
import { DeliveryDesk } from './webhooks/delivery-desk.ts'
import { WebhookSender } from './webhooks/webhook-sender.ts'

export interface WatchRunnerOptions extends Pick<LiveWatchOptions, 'keys' | 'media' | 'look' | 'cameras'> {
  readonly database: Database
  readonly files: Files
  /** Decrypts the secrets of webhooks. */
  readonly secrets: SecretBox
  /** `id` begins the names of leases of all servers in one place; `alone` says that no other server runs there now. */
  readonly place: { readonly id: string; readonly alone: boolean }
  readonly logger: Pick<Logger, 'warn'>
  /** The most watches that this server runs at a time. */
  readonly most: number
  /** How long a lease lasts unless it is renewed. */
  readonly leaseMs?: number | undefined
  /** Interval between checks of the watches. */
  readonly beatMs?: number | undefined
  /** The shortest time without frames that counts as silence. */
  readonly silenceMs?: number | undefined
  /** The window over which missed looks are counted, for `watch.lagging`. */
  readonly lagMs?: number | undefined
  readonly meter: WatchMeter | null
  readonly webhooks: WebhookOptions
}

interface WebhookOptions {
  /** Private hosts that clients may name. */
  readonly hosts: readonly string[]
  /** How long to wait for an answer. */
  readonly timeoutMs?: number | undefined
  /** Delays between attempts, before jitter. */
  readonly retriesMs?: readonly number[] | undefined
}

/** Gets the events and looks of a watch as they happen. */
export interface WatchListener {
  /** There are new events, or the watch has changed. */
  onTold(): void
  onLook(look: LookReport): void
}

/** For requests that only the server that runs the watch can answer. */
export function watchElsewhere(message: string): ApiError {
  return new ApiError(message, {
    ...{ status: 503, type: 'server_error', code: 'watch_elsewhere', retryAfter: RETRY_SECONDS },
  })
}

const LEASE_MS = 15_000
const BEAT_MS = 1_000
/** Beats between checks for changes that other servers made. */
const REFRESH_BEATS = 5
const SILENCE_MS = 10_000
const LAG_MS = 60_000
/** Interval between renewals of leases, as a share of `leaseMs`. */
const RENEWAL_SHARE = 1 / 4
const SWEEP_MS = 60_000
const RETRY_SECONDS = 2
const WEBHOOK_TIMEOUT_MS = 10_000
/** Concurrent reads of the database for clients that follow watches. */
const MOST_READS = 4

/** Runs watches, as one of any number of servers on one database. */
export class WatchRunner {
  readonly #options: WatchRunnerOptions
  /** Names its leases. */
  readonly #owner: string
  readonly #desk: WatchDesk
  readonly #deliveries: DeliveryDesk
  readonly #agent: GuardedAgent
  readonly #sender: WebhookSender
  readonly #held = new Map<string, LiveWatch>()
  readonly #listeners = new Map<string, Set<WatchListener>>()
  /**
   * Clients that follow watches take turns to read: there may be thousands, and other requests need the database too.
   */
  readonly reads = new FairSlots(MOST_READS)
  readonly #stopping = new AbortController()
  #ended: Promise<unknown> = Promise.resolve()
  #looking: Promise<void> = Promise.resolve()
  #isFailing = false
  /** Whether the first look is done, which frees the leases of servers that ran in this place before. */
  #isAlone = false

  constructor(options: WatchRunnerOptions) {
    const { database, files, secrets, place, leaseMs = LEASE_MS, webhooks } = options
    const { hosts, retriesMs, timeoutMs = WEBHOOK_TIMEOUT_MS } = webhooks
    const owner = `${place.id}-${randomBytes(8).toString('hex')}`
    this.#options = options
    this.#owner = owner
    this.#desk = new WatchDesk(database, files, { owner, leaseMs })
    this.#deliveries = new DeliveryDesk(database, { owner, leaseMs: leaseMs + timeoutMs, secrets })
    this.#agent = new GuardedAgent({ allowedHosts: hostSet(hosts) })
    this.#sender = new WebhookSender({
      ...{ desk: this.#deliveries, agent: this.#agent, timeoutMs, retriesMs },
      guarded: (work) => this.#guarded(work),
      onResult: (result) => options.meter?.webhookSent(result),
    })
  }

  start(): void {
    this.#ended = Promise.all([this.#run(), this.#renewAll()])
    this.#sender.start()
  }

  /** Why the address of a webhook is refused; null if it is allowed. */
  refusalOf(url: URL): Refusal | null {
    return this.#agent.refusalOf(url)
  }

  /** Ends all looks, and frees the watches for other servers or for the next start of this one. */
  async close(): Promise<void> {
    this.#stopping.abort()
    await Promise.all([this.#ended, this.#sender.close()])
    await this.#looking
    // In parallel: otherwise a database that hangs delays the end once for each watch.
    await Promise.all(
      [...this.#held].map(async ([id, watch]) => {
        await watch.close()
        await this.#guarded(() => this.#desk.leave(id, watch.progress))
      }),
    )
    this.#held.clear()
  }

  async #run(): Promise<void> {
    const { beatMs = BEAT_MS } = this.#options
    const { signal } = this.#stopping
    let sweptAt = performance.now()
    for (let beat = 0; !signal.aborted; beat++) {
      if (beat % REFRESH_BEATS === 0) await this.refresh()
      if (performance.now() - sweptAt > SWEEP_MS) {
        sweptAt = performance.now()
        await this.#guarded(() => this.#desk.deleteExpired())
      }
      for (const watch of this.#held.values()) await this.#guarded(() => watch.check())
      await delay(beatMs, undefined, { signal, ref: false }).catch(() => {})
    }
  }

  /** Separate from the beats, which take long if many watches have something to report and the database is slow. */
  async #renewAll(): Promise<void> {
    const every = (this.#options.leaseMs ?? LEASE_MS) * RENEWAL_SHARE
    const { signal } = this.#stopping
    for (;;) {
      await delay(every, undefined, { signal, ref: false }).catch(() => {})
      if (signal.aborted) return
      if (this.#held.size > 0) await this.#guarded(async () => void (await this.#renew(new Map(this.#held))))
    }
  }

  /** Logs failures of the work. While the database is away, watches wait for it, which is logged once. */
  async #guarded(work: () => Promise<void>): Promise<void> {
    try {
      await work()
      this.#isFailing = false
    } catch (error) {
      if (this.#stopping.signal.aborted) return
      const isAway = error instanceof ApiError && error.status === 503
      if (!this.#isFailing || !isAway)
        this.#options.logger.warn({ err: error }, 'Watches are waiting: a service that they need has failed')
      this.#isFailing = true
    }
  }

  /** Applies what has changed in the database. Call it after a watch was created, changed or deleted here. */
  async refresh(): Promise<void> {
    await this.#inTurn(() => this.#guarded(() => this.#look()))
    this.#sender.wake()
  }

  /** Runs work that changes `#held`, one at a time. */
  #inTurn<Result>(work: () => Promise<Result>): Promise<Result> {
    const done = this.#looking.then(work)
    this.#looking = done.then(
      () => {},
      () => {},
    )
    return done
  }

  async #look(): Promise<void> {
    const { place, most } = this.#options
    if (place.alone && !this.#isAlone) {
      await this.#desk.forget(`${place.id}-`)
      await this.#deliveries.forget(`${place.id}-`)
    }
    this.#isAlone = true
    const open = new Map((await this.#desk.open()).map(({ id, version }) => [id, version]))
    for (const [id, watch] of this.#held) {
      if (open.has(id)) continue
      // Paused, deleted, or lost to another server.
      this.#held.delete(id)
      await watch.close()
      await this.#desk.leave(id, watch.progress)
      this.#tell(id)
    }
    for (const [id, version] of open) {
      if (this.#stopping.signal.aborted) return
      const known = this.#held.get(id)
      if (known === undefined ? this.#held.size >= most : known.version === version) continue
      const watch = await this.#desk.take(id)
      if (watch === null) continue
      if (known !== undefined) known.change(watch)
      else this.#hold(watch)
    }
  }

  #hold(watch: HeldWatch): LiveWatch {
    const live = new LiveWatch(watch, this.#optionsOfWatches)
    this.#held.set(watch.id, live)
    return live
  }

  get #optionsOfWatches(): LiveWatchOptions {
    const { keys, files, media, look, cameras, meter, silenceMs = SILENCE_MS, lagMs = LAG_MS } = this.#options
    return {
      ...{ desk: this.#desk, keys, files, media, look, cameras, meter, silenceMs, lagMs },
      onTold: (id) => this.#tell(id),
      onLook: (id, look) => {
        for (const listener of this.#listeners.get(id) ?? []) listener.onLook(look)
      },
    }
  }

  /** Closes the watches whose leases are lost. @returns whether none is. */
  async #renew(held: ReadonlyMap<string, LiveWatch>): Promise<boolean> {
    const renewed = await this.#desk.renew(new Map([...held].map(([id, watch]) => [id, watch.progress])))
    const lost = [...held].filter(([id]) => !renewed.has(id))
    await Promise.all(
      lost.map(async ([id, watch]) => {
        if (this.#held.get(id) === watch) this.#held.delete(id)
        await watch.close()
        this.#tell(id)
      }),
    )
    return lost.length === 0
  }

  /** Whether this server runs the watch for the organisation, and a client sends its frames. */
  takesFrames(organisation: string, id: string): boolean {
    const watch = this.#held.get(id)
    return watch?.organisation === organisation && !watch.hasCamera
  }

  /**
   * Gives a frame to a watch, and takes the watch over if no other server gets its frames.
   * @throws ApiError 503 if another server gets its frames or this one runs its most watches; otherwise as
   * `LiveWatch.push`.
   */
  async push(id: string, frame: PushedFrame, waits: boolean): Promise<Pushed> {
    const known = this.#held.get(id)
    // While no frames came, another server may have taken it over.
    const isHeld = known !== undefined && (known.feed() || (await this.#renew(new Map([[id, known]]))))
    const watch = isHeld ? known : await this.#inTurn(() => this.#takeOver(id))
    return watch.push(pushedFrame(frame), waits)
  }

  async #takeOver(id: string): Promise<LiveWatch> {
    const known = this.#held.get(id)
    if (known !== undefined) return known
    if (this.#stopping.signal.aborted) throw serviceUnavailable('The server shuts down', RETRY_SECONDS)
    if (this.#held.size >= this.#options.most) {
      throw serviceUnavailable('This server runs as many watches as it may (LOOKOUT_WATCHES)', RETRY_SECONDS)
    }
    const taken = await this.#desk.takeOver(id)
    if (taken !== null) {
      const watch = this.#hold(taken)
      watch.feed()
      if (await this.#renew(new Map([[id, watch]]))) return watch
    }
    throw watchElsewhere(
      'Another server receives the frames of this watch. Send all of them to one server; this one takes over when the other has received none for a while',
    )
  }

  /** The status of each watch that this server runs. */
  get states(): readonly WatchReport['status'][] {
    return [...this.#held.values()].map((watch) => watch.report().status)
  }

  /** Status and counts of a watch; null if this server does not run it. */
  report(id: string): WatchReport | null {
    return this.#held.get(id)?.report() ?? null
  }

  /** Whether another server runs a watch, as far as the database knows. */
  isElsewhere({ id, heldBy, paused }: Pick<Watch, 'id' | 'heldBy' | 'paused'>): boolean {
    return !paused && heldBy !== null && heldBy !== this.#owner && !this.#held.has(id)
  }

  /** The newest frame; null if there is none. */
  async newest(id: string): Promise<Picture | null> {
    return (await this.#held.get(id)?.newest()) ?? null
  }

  /**
   * Whether the key of a client that follows is revoked or has expired. While the database is away, no key can be
   * revoked.
   */
  async isShutOut(key: string, organisation: string): Promise<boolean> {
    return (await this.#options.keys.ownerOf(key, organisation).catch(() => undefined)) === null
  }

  /** @returns a function that ends it. */
  follow(id: string, listener: WatchListener): () => void {
    const listeners = this.#listeners.get(id) ?? new Set()
    this.#listeners.set(id, listeners.add(listener))
    return () => {
      listeners.delete(listener)
      if (listeners.size === 0) this.#listeners.delete(id)
    }
  }

  #tell(id: string): void {
    this.#sender.wake()
    for (const listener of this.#listeners.get(id) ?? []) listener.onTold()
  }
}
