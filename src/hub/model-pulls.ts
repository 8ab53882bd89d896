import type { MachineSpeed } from '../catalogue/speed-estimate.ts'
import { ConfigError } from '../config/config.ts'
import { invalidRequest } from '../lib/errors/errors.ts'
import { repositoryOf, storedCards } from './cache/model-store.ts'
import { type ModelAddress, readAddress } from './choice/model-address.ts'
import { readHubSettings } from './hub-settings.ts'
import type { PullEvent } from './pull-event.ts'
import { pullInProcess } from './pull-process.ts'
import type { Removal } from './remove.ts'

export interface ModelPullsOptions {
  /** Folder of the cards. */
  readonly store: string
  /** Bytes of memory that all models together may use; null for no limit. */
  readonly memoryLimitBytes: number | null
  readonly machineSpeed: () => Promise<MachineSpeed | null>
  readonly logger: { info(message: string): void }
}

export interface AskedPull {
  /** An address as for `lookout pull`, of a repository or of the catalogue. */
  readonly model: string
  readonly projector: 'auto' | 'none'
  /** Whether to report only the choices, and to fetch nothing. */
  readonly isDryRun: boolean
}

/**
 * Pulls and removes models for clients of a running server. Clients may only name repositories of the hub: with an
 * address of another host, the server would send a request to that host, and with a path, it would read that file.
 */
export class ModelPulls {
  readonly #options: ModelPullsOptions
  /** Running pulls and removals, by repository. */
  readonly #running = new Map<string, Promise<unknown>>()
  readonly #closing = new AbortController()

  constructor(options: ModelPullsOptions) {
    this.#options = options
  }

  /**
   * Pulls a model. An aborted pull is resumed when the same model is requested again.
   * @returns the id that it is served under; null for a dry run.
   * @throws ApiError 400 for an address or a repository that cannot be used, 409 while the same repository is being
   * pulled, 503 when the hub cannot be reached, 507 when the disk is full; the signal's reason.
   */
  async pull(
    { model, projector, isDryRun }: AskedPull,
    report: (event: PullEvent) => void,
    signal: AbortSignal,
  ): Promise<string | null> {
    const { store, memoryLimitBytes, machineSpeed, logger } = this.#options
    const { id: repository, isShort, wanted } = await addressOf(model)
    // The hub ignores case.
    return this.#alone(repository.toLowerCase(), async () => {
      const speed = isShort && wanted === null ? await machineSpeed() : null
      if (!isDryRun) logger.info(`Pulling ${repository}${wanted === null ? '' : `:${wanted}`}`)
      const task = { address: model, projector, isDryRun, store, memoryLimitBytes, speed }
      const id = await pullInProcess(task, report, AbortSignal.any([signal, this.#closing.signal]))
      if (id !== null) logger.info(`Pulled ${id}`)
      return id
    })
  }

  /**
   * Removes a model that was pulled or added, and the files that were fetched for it.
   * @param onCardRemoved called after the card is removed and before its files are.
   * @returns null when the store has none of this id.
   * @throws ApiError 409 while its repository is being pulled.
   */
  async remove(id: string, onCardRemoved: () => Promise<void>): Promise<Removal | null> {
    const { store, logger } = this.#options
    const card = (await storedCards(store)).find(({ ids }) => ids.includes(id))
    if (card === undefined) return null
    return this.#alone(repositoryOf(card.source)?.toLowerCase() ?? card.file, async () => {
      const { removeModel } = await import('./remove.ts')
      const { cacheRoot } = await readHubSettings(process.env)
      const removal = await removeModel(id, { store, cacheRoot, keepFiles: false, onCardRemoved })
      logger.info(`Removed ${removal.card.ids.join(', ')}`)
      return removal
    })
  }

  /** Aborts running pulls and removals, and waits for them. */
  async close(): Promise<void> {
    this.#closing.abort()
    await Promise.allSettled(this.#running.values())
  }

  async #alone<Result>(repository: string, work: () => Promise<Result>): Promise<Result> {
    if (this.#running.has(repository)) {
      const message = `${repository} is being pulled or removed; try again when that is done`
      throw invalidRequest(message, 'model', { status: 409, code: 'pull_in_progress' })
    }
    const running = work()
    this.#running.set(repository, running)
    try {
      return await running
    } finally {
      this.#running.delete(repository)
    }
  }
}

/** @throws ApiError for an address that is no repository of the hub. */
async function addressOf(model: string): Promise<Extract<ModelAddress, { kind: 'repository' }>> {
  const { endpoint } = await readHubSettings(process.env)
  try {
    const address = await readAddress(model, endpoint)
    if (address.kind === 'repository') return address
  } catch (error) {
    if (error instanceof ConfigError) throw invalidRequest(error.message, 'model', { cause: error })
    throw error
  }
  const message =
    'Only models of the catalogue and repositories of the hub can be pulled over HTTP, such as user/repository:Q4_K_M; lookout pull takes other addresses'
  throw invalidRequest(message, 'model')
}
