import type { ApiError } from '../../lib/errors.ts'
import type { ModelRegistry, ServedModel } from './registry.ts'
import type { StoredModels } from './stored-models.ts'

/** The models that requests can name: those of the settings, and those of the model store, which come and go. */
export class ModelCatalog {
  readonly #registry: ModelRegistry
  readonly #stored: StoredModels

  constructor(registry: ModelRegistry, stored: StoredModels) {
    this.#registry = registry
    this.#stored = stored
  }

  /** Looks at the store for a name that the settings do not have. */
  async find(id: string): Promise<ServedModel | undefined> {
    const model = this.#registry.find(id)
    if (model !== undefined && !this.#stored.holds(model)) return model
    await this.#stored.refresh()
    return this.#registry.find(id)
  }

  /** Models of the settings first; aliases are not listed. */
  async list(): Promise<readonly ServedModel[]> {
    await this.#stored.refresh()
    return this.#registry.list()
  }

  /** After this, the models are those that the store has now. */
  refresh(): Promise<void> {
    return this.#stored.refreshAll()
  }

  /** Whether the model is one of the store. */
  isStored(model: ServedModel): boolean {
    return this.#stored.holds(model)
  }

  /** What a request is told whose model is in the store and can never be loaded here. */
  refusalOf(id: string): ApiError | undefined {
    return this.#stored.refusalOf(id)
  }

  /** Whether at least one model accepts work. */
  get ready(): boolean {
    return this.#registry.ready
  }
}
