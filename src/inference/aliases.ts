import type { ModelCard } from '../models/card.ts'

/** Further names that clients may send, each with the id of the model that answers. */
export type Aliases = Readonly<Record<string, string>>

/**
 * The cards, with the aliases of the settings as if the cards themselves had them.
 * @throws Error for an alias of an unknown model, or one that a model already has as its name.
 */
export function withAliases(cards: readonly ModelCard[], aliases: Aliases): readonly ModelCard[] {
  const served = cards.flatMap((card) => card.serves)
  const taken = new Map(served.flatMap(({ id, aliases }) => [id, ...aliases].map((name) => [name, id])))
  const added = new Map<string, string[]>()
  for (const [alias, target] of Object.entries(aliases)) {
    if (taken.has(alias)) throw new Error(`The alias '${alias}' is already a name of the model '${taken.get(alias)}'`)
    const id = taken.get(target)
    if (id === undefined) {
      const ids = served.map(({ id }) => id).join(', ')
      throw new Error(`The alias '${alias}' stands for '${target}', which is not a model; the models are ${ids}`)
    }
    added.set(id, [...(added.get(id) ?? []), alias])
  }
  return cards.map((card) => ({
    ...card,
    serves: card.serves.map((one) => ({ ...one, aliases: [...one.aliases, ...(added.get(one.id) ?? [])] })),
  }))
}
