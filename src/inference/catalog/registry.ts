import { CardError, type ModelCard, type ServedId } from '../../models/card.ts'
import { checkPromises } from '../contract/card-checks.ts'
import type { Engine } from '../contract/engine.ts'

/** A model under one of its ids. */
export interface ServedModel {
  readonly id: string
  readonly served: ServedId
  readonly card: ModelCard
  readonly engine: Engine
  /** Maximum tokens of prompt and completion together. */
  readonly contextTokens: number
  /** Maximum tokens of one completion. */
  readonly outputTokens: number
}

/** The served models, by id and alias. */
export class ModelRegistry {
  #models: readonly ServedModel[] = []
  readonly #byId = new Map<string, ServedModel>()

  /**
   * Adds all models of a card, or none.
   * @throws CardError when an id is taken or the card promises something that the model or the card lacks.
   */
  add(card: ModelCard, engine: Engine): readonly ServedModel[] {
    checkPromises(card, engine.info)
    const added = new Map<string, ServedModel>()
    const models = card.serves.map((served, index) => {
      const contextTokens = Math.min(served.maxContextTokens, engine.info.contextTokens)
      const outputTokens = Math.min(served.maxOutputTokens, contextTokens)
      const model = { id: served.id, served, card, engine, contextTokens, outputTokens }
      for (const id of [served.id, ...served.aliases]) {
        const other = this.#byId.get(id) ?? added.get(id)
        if (other) {
          throw new CardError(card.file, `serves[${index}]`, `'${id}' is already served by ${other.card.file}`, {
            told: `'${id}' is the name of another model`,
          })
        }
        added.set(id, model)
      }
      return model
    })
    for (const [id, model] of added) this.#byId.set(id, model)
    this.#models = [...this.#models, ...models]
    return models
  }

  /** Removes all models of a card. */
  remove(card: ModelCard): void {
    for (const [id, model] of this.#byId) if (model.card === card) this.#byId.delete(id)
    this.#models = this.#models.filter((model) => model.card !== card)
  }

  find(id: string): ServedModel | undefined {
    return this.#byId.get(id)
  }

  /** In the order in which the cards were added; aliases are not listed. */
  list(): readonly ServedModel[] {
    return this.#models
  }

  /**
   * Whether at least one engine accepts work, or there are no engines yet: a server without models accepts pulls. An
   * unloaded engine accepts work, which loads it. One model that is down must not make the others unavailable.
   */
  get ready(): boolean {
    return (
      this.#models.length === 0 ||
      this.#models.some(({ engine: { state } }) => state !== 'restarting' && state !== 'closed')
    )
  }
}
