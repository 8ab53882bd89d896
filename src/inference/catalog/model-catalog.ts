import { stat } from 'node:fs/promises'
import { ApiError, invalidRequest, serviceUnavailable } from '../../lib/errors/errors.ts'
import { CardError, loadCard, type ModelCard } from '../../models/card.ts'
import { findStoredCards } from '../../models/stored-cards.ts'
import { namesIn, readUnlessFatal } from '../../models/unread-cards.ts'
import { type EnginePool, gib } from '../pool/engine-pool.ts'
import type { PooledEngine } from '../pool/pooled-engine.ts'
import { type Aliases, addAliases, withoutTaken } from './aliases.ts'
import type { ModelOpener } from './open-models.ts'
import type { ModelRegistry, ServedModel } from './registry.ts'

export interface ModelCatalogOptions {
  /** The model store; it need not exist. */
  readonly directory: string
  /** Holds the models of the settings, whose names take precedence. */
  readonly registry: ModelRegistry
  readonly pool: EnginePool
  readonly opener: ModelOpener
  readonly aliases: Aliases
  /** Maximum estimated bytes of one model. */
  readonly memoryBytes: number
  /** Prepares the models of one card for requests. @throws Error when they cannot be served. */
  prepare(models: readonly ServedModel[]): void
  readonly logger: { info(message: string): void; warn(message: string): void }
  /** Lists the cards in a folder; for tests. */
  readonly list?: typeof findStoredCards
}

/** An unchanged folder is listed again after this time: a card in it may have been replaced. */
const LIST_MS = 1_000
/** Interval at which the store is read without a request, so that a removed model does not keep its memory. */
const IDLE_LOOK_MS = 5_000
/** Changes closer together than this may leave the folder with the same modification time. */
const COARSE_MS = 100
/** Time after which a card is read again that could not be read for a temporary reason, such as a lack of memory. */
const REREAD_MS = 10_000

/** A card of the store as last read. */
interface Entry {
  readonly version: string
  /** What is served from it; null if it cannot be served. */
  readonly served: { readonly card: ModelCard; readonly engine: PooledEngine } | null
  /** Whether another model has one of its names. */
  readonly isTaken: boolean
  /** Names that cannot be served, and the error for requests that name them. */
  readonly refusal: { readonly ids: readonly string[]; readonly error: ApiError } | null
  /** When it is read again even if unchanged, by `performance.now()`. */
  readonly expires: number
}

const UNUSED = { served: null, isTaken: false, refusal: null, expires: Number.POSITIVE_INFINITY }

/**
 * The models that requests can name: those from the settings, and those in the model store, which may change at any
 * time. A model of the store is loaded on first use. An unusable card costs a line in the log and nothing else.
 */
export class ModelCatalog {
  readonly #options: ModelCatalogOptions
  readonly #list: typeof findStoredCards
  readonly #entries = new Map<string, Entry>()
  readonly #cards = new Set<ModelCard>()
  #looking: Promise<void> | null = null
  #nextLook: Promise<void> | null = null
  #listedAt = Number.NEGATIVE_INFINITY
  /** Whether the next look must list the folder. */
  #mustList = false
  /** When one of the watched folders last changed, as of the last list. NaN, which equals nothing, if unknown. */
  #changedAt = Number.NaN
  /** The store, and folders in it that have no card yet. */
  #watched: readonly string[]
  #problem = ''
  #closed = false
  readonly #timer: NodeJS.Timeout

  constructor(options: ModelCatalogOptions) {
    this.#options = options
    this.#watched = [options.directory]
    this.#list = options.list ?? findStoredCards
    this.#timer = setInterval(() => {
      if (this.#entries.size > 0) void this.look()
    }, IDLE_LOOK_MS).unref()
  }

  /** Looks at the store for a name that the settings do not have. */
  async find(id: string): Promise<ServedModel | undefined> {
    const { registry } = this.#options
    const model = registry.find(id)
    if (model !== undefined && !this.isStored(model)) return model
    await this.look()
    return registry.find(id)
  }

  /** Models from the settings come first; aliases are not listed. */
  async list(): Promise<readonly ServedModel[]> {
    await this.look()
    return this.#options.registry.list()
  }

  /** Whether at least one model accepts work. */
  get ready(): boolean {
    return this.#options.registry.ready
  }

  /** Whether the model is one of the store. */
  isStored(model: ServedModel): boolean {
    return this.#cards.has(model.card)
  }

  /** The error for requests that name a model of the store which can never be loaded here. */
  refusalOf(id: string): ApiError | undefined {
    for (const { refusal } of this.#entries.values()) if (refusal?.ids.includes(id)) return refusal.error
    return undefined
  }

  /**
   * Updates the catalogue from the store. When the promise resolves, everything that was in the store before the call
   * is served, except that a card replaced in place may take a second to be noticed. Concurrent calls share a look,
   * which costs a single file access if the store has not changed. Never rejects.
   */
  look(): Promise<void> {
    // A look in progress may have passed the place of the latest change.
    if (this.#looking !== null) {
      this.#nextLook ??= this.#looking.then(() => {
        this.#nextLook = null
        return this.#begin()
      })
      return this.#nextLook
    }
    return this.#begin()
  }

  /** Like `look`, but also notices at once a card that was replaced in place. */
  refresh(): Promise<void> {
    this.#mustList = true
    return this.look()
  }

  /** The catalogue does not change afterwards. */
  async close(): Promise<void> {
    this.#closed = true
    clearInterval(this.#timer)
    await this.#looking
  }

  #begin(): Promise<void> {
    this.#looking = this.#look()
      .catch((error: Error) => this.#warnOnce(`Cannot read the model store: ${error.message}`))
      .finally(() => {
        this.#looking = null
      })
    return this.#looking
  }

  async #look(): Promise<void> {
    if (this.#closed) return
    const { directory } = this.#options
    const changedAt = await changeOf(this.#watched)
    const now = performance.now()
    if (!this.#mustList && changedAt === this.#changedAt && now - this.#listedAt < LIST_MS) return
    this.#mustList = false
    const { cards: found, unfinished } = await this.#list(directory)
    const watched = [directory, ...unfinished]
    const isSure = changedAt < Date.now() - COARSE_MS && watched.join() === this.#watched.join()
    this.#problem = ''
    this.#listedAt = now
    this.#changedAt = isSure ? changedAt : Number.NaN
    this.#watched = watched
    let removed = false
    for (const [file, { version, served, expires }] of this.#entries) {
      if (found.get(file) === version && now < expires) continue
      this.#entries.delete(file)
      if (served !== null) this.#remove(served, found.has(file))
      removed = true
    }
    // A name that was taken may now be free.
    if (removed) for (const [file, { isTaken }] of this.#entries) if (isTaken) this.#entries.delete(file)
    for (const [file, version] of found) {
      if (this.#closed) return
      if (!this.#entries.has(file)) this.#entries.set(file, { version, ...(await this.#open(file)) })
    }
  }

  /** Serves the models of a card if it is usable. */
  async #open(file: string): Promise<Omit<Entry, 'version'>> {
    const { registry, pool, opener, aliases, memoryBytes: most, prepare, logger } = this.#options
    try {
      const [described, { info, memoryBytes }] = await readUnlessFatal(file, async () => {
        const written = await loadCard(file, (message) => logger.warn(message), { load: 'first_use' })
        const servable = opener.servable(addAliases(written, aliases))
        return [servable, await opener.describe(servable)] as const
      })
      const isNamed = (one: string) => registry.find(one) !== undefined
      const taken = described.serves.map(({ id }) => id).find(isNamed)
      if (taken !== undefined) {
        logger.warn(`${file} is not served: '${taken}' is already served by ${registry.find(taken)!.card.file}`)
        return { ...UNUSED, isTaken: true }
      }
      const card = withoutTaken(described, isNamed, (message) => logger.warn(message))
      const names = card.serves.flatMap(({ id, aliases }) => [id, ...aliases])
      const name = names[0]!
      if (memoryBytes > most) {
        const problem = `needs about ${gib(memoryBytes)} of memory, and this server has ${gib(most)} for models`
        logger.warn(`The stored model '${name}' is not served: it ${problem}`)
        const error = invalidRequest(`Model '${name}' cannot be served: it ${problem}`, null)
        return { ...UNUSED, refusal: { ids: names, error } }
      }
      const start = (signal: AbortSignal) => opener.start(card, name, signal)
      const engine = pool.add({ name, info, memoryBytes, start })
      try {
        prepare(registry.add(card, engine))
      } catch (error) {
        registry.remove(card)
        void pool.remove(engine, { isReplaced: false })
        throw error
      }
      this.#cards.add(card)
      logger.info(`Serving ${card.serves.map(({ id }) => id).join(', ')} from the model store`)
      // The pool logs why a load failed, and the first request tries again.
      if (card.load === 'start') pool.preload([engine]).catch(() => {})
      return { ...UNUSED, served: { card, engine } }
    } catch (error) {
      logger.warn(`A stored model is not served: ${(error as Error).message}`)
      const passes = isUnavailable(error)
      const unused = passes ? { ...UNUSED, expires: performance.now() + REREAD_MS } : UNUSED
      const ids = await namesIn(file)
      if (ids.length === 0) return unused
      const refuse = () => {
        if (passes) {
          return serviceUnavailable(`Model '${ids[0]}' cannot be read now; try again later`, REREAD_MS / 1000, error)
        }
        const problem = error instanceof CardError ? error.told : 'its card or its files cannot be used'
        return invalidRequest(`Model '${ids[0]}' cannot be served: ${problem}`, null)
      }
      return { ...unused, refusal: { ids, error: refuse() } }
    }
  }

  #remove({ card, engine }: NonNullable<Entry['served']>, isReplaced: boolean): void {
    const { registry, pool, logger } = this.#options
    registry.remove(card)
    this.#cards.delete(card)
    logger.info(
      `No longer serving ${card.serves.map(({ id }) => id).join(', ')}: the stored card was removed or replaced`,
    )
    pool
      .remove(engine, { isReplaced })
      .catch((error: Error) => logger.warn(`Cannot unload ${engine.model.name}: ${error.message}`))
  }

  #warnOnce(problem: string): void {
    if (problem !== this.#problem) this.#options.logger.warn(problem)
    this.#problem = problem
  }
}

/** Whether the system prevented a process from reading the model, which says nothing about the model. */
function isUnavailable(error: unknown): boolean {
  if (error instanceof ApiError) return error.status === 503
  return error instanceof Error && isUnavailable(error.cause)
}

/**
 * When entries were last added to or removed from any of the folders, in ms since 1970; 0 for a folder that does not
 * exist.
 */
async function changeOf(directories: readonly string[]): Promise<number> {
  const changes = directories.map((directory) =>
    stat(directory).then(
      ({ mtimeMs }) => mtimeMs,
      () => 0,
    ),
  )
  return Math.max(...(await Promise.all(changes)))
}
