import { FairQueue } from '../../../lib/fair-queue.ts'
import type { Priority } from '../../contract/priority.ts'
import { ServerFailure } from '../wire/wire.ts'
import { rendezvous } from './rendezvous.ts'
import type { ModelServer } from './server.ts'

/** A request for a place on a server. */
export interface Placement {
  readonly organisation: string
  /** Requests with the same key share a beginning, which one server has already computed. */
  readonly key: string
  /** Number of completions. */
  readonly count: number
  /** Number of completions of the whole work, which should run on one server. */
  readonly workCount: number
  /**
   * Background work only gets places that no other request waits for. Live work waits with the others: a server
   * finishes what it has begun, so no share of its time can be reserved.
   */
  readonly priority?: Priority | undefined
  /** A server that has just failed for this request. */
  readonly avoid?: ModelServer | undefined
}

/** A place on a server, until it is released. */
export interface Place {
  readonly server: ModelServer
  release(): void
}

interface Waiting extends Placement {
  readonly id: number
  resolve(place: Place): void
  reject(reason: unknown): void
}

/** Maximum load of a server relative to the mean; beyond it, another server gets the work. */
const LOAD_BOUND = 1.25
/** Weight of the latest observation in the moving average of how long places are held. */
const LATEST_WEIGHT = 0.1
const FIRST_GUESS_MS = 2_000

/**
 * Allocates places on a model's servers, to organisations in turn. Work goes to the server that its key prefers, unless
 * that server has more than its share of the load (Mirrokni, Thorup and Zadimoghaddam, "Consistent hashing with bounded
 * loads", 2016).
 */
export class Servers {
  readonly all: readonly ModelServer[]
  /** Maximum completions that one server computes at a time. */
  readonly capacity: number
  readonly #queue = new FairQueue<Waiting>()
  readonly #backgroundQueue = new FairQueue<Waiting>()
  #lastId = 0
  #meanMs = FIRST_GUESS_MS

  constructor(all: readonly ModelServer[], capacity: number) {
    this.all = all
    this.capacity = capacity
  }

  get up(): readonly ModelServer[] {
    return this.all.filter(({ state }) => state === 'up')
  }

  /**
   * Waits for a place.
   * @throws the signal's reason, the error passed to `failWaiting`, or a ServerFailure if no server is usable.
   */
  async place(wanted: Placement, signal: AbortSignal): Promise<Place> {
    signal.throwIfAborted()
    if (this.up.length === 0) throw new ServerFailure('lost', 'no server can be used')
    const queue = wanted.priority === 'background' ? this.#backgroundQueue : this.#queue
    const { promise, resolve, reject } = Promise.withResolvers<Place>()
    const waiting: Waiting = { ...wanted, id: ++this.#lastId, resolve, reject }
    const leave = () => {
      queue.remove(waiting)
      reject(signal.reason)
    }
    signal.addEventListener('abort', leave, { once: true })
    queue.add(waiting)
    this.serve()
    return promise.finally(() => signal.removeEventListener('abort', leave))
  }

  /** Assigns free places to waiting requests. Call it when a server is available again. */
  serve(): void {
    for (const queue of [this.#queue, this.#backgroundQueue]) {
      for (let head = queue.head; head !== undefined; head = queue.head) {
        const server = this.#choose(head)
        if (server === null) return
        queue.rotate()
        queue.remove(head)
        head.resolve(this.#take(server, head.count))
      }
    }
  }

  failWaiting(reason: unknown): void {
    for (const queue of [this.#queue, this.#backgroundQueue]) {
      for (const waiting of queue.items) {
        queue.remove(waiting)
        waiting.reject(reason)
      }
    }
  }

  /** Estimated seconds until this many more completions get a place. */
  secondsUntilPlaces(count: number): number {
    const places = Math.max(1, this.up.length * this.capacity)
    const waiting = this.#queue.items.reduce((sum, item) => sum + item.count, count)
    return ((waiting / places) * this.#meanMs) / 1000
  }

  #choose({ key, count, workCount, avoid }: Placement): ModelServer | null {
    const up = this.up
    const others = up.filter((server) => server !== avoid)
    const servers = others.length > 0 ? others : up
    if (servers.length === 0) return null
    const load = servers.reduce((sum, server) => sum + server.load, workCount)
    const bound = Math.max(workCount, Math.ceil((LOAD_BOUND * load) / servers.length))
    const ranked = rendezvous(servers, key).filter((server) => server.load + count <= this.capacity)
    return ranked.find((server) => server.load + count <= bound) ?? least(ranked)
  }

  #take(server: ModelServer, count: number): Place {
    const taken = performance.now()
    let released = false
    server.load += count
    return {
      server,
      release: () => {
        if (released) return
        released = true
        server.load -= count
        this.#meanMs += LATEST_WEIGHT * (performance.now() - taken - this.#meanMs)
        this.serve()
      },
    }
  }
}

function least(servers: readonly ModelServer[]): ModelServer | null {
  return servers.reduce<ModelServer | null>((best, one) => (best === null || one.load < best.load ? one : best), null)
}
