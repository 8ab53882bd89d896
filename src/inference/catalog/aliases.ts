import type { ModelCard } from '../../models/card.ts'

/** Additional names that clients may send, each with the id of the model that answers. */
export type Aliases = Readonly<Record<string, string>>

/**
 * Adds the aliases from the settings to the cards.
 * @param warn receives a warning about each alias of an unknown model; null if there are no models besides the cards.
 * @throws Error for an alias that is already the name of a model, or, if `warn` is null, for an alias of an unknown
 * model.
 */
export function withAliases(
  cards: readonly ModelCard[],
  aliases: Aliases,
  warn: ((message: string) => void) | null = null,
): readonly ModelCard[] {
  const served = cards.flatMap((card) => card.serves)
  const taken = new Map(served.flatMap(({ id, aliases }) => [id, ...aliases].map((name) => [name, id])))
  for (const [alias, target] of Object.entries(aliases)) {
    if (taken.has(alias)) throw new Error(`The alias '${alias}' is already a name of the model '${taken.get(alias)}'`)
    if (taken.has(target)) continue
    const stands = `The alias '${alias}' stands for '${target}', which is not a model`
    if (warn === null) throw new Error(`${stands}; the models are ${served.map(({ id }) => id).join(', ')}`)
    warn(`${stands} of the settings; it works while the model store has one of that name`)
  }
  return cards.map((card) => addAliases(card, aliases))
}

/**
 * Removes the aliases that are names of other models: a model's own name takes precedence.
 * @param warn is called for each.
 */
export function withoutTaken(
  card: ModelCard,
  isTaken: (name: string) => boolean,
  warn: (message: string) => void,
): ModelCard {
  const serves = card.serves.map((one) => {
    const taken = one.aliases.filter(isTaken)
    for (const alias of taken)
      warn(`${card.file}: the alias '${alias}' is left out, because another model has this name`)
    return taken.length === 0 ? one : { ...one, aliases: one.aliases.filter((alias) => !taken.includes(alias)) }
  })
  return { ...card, serves }
}

/** Adds the aliases of the card's models. */
export function addAliases(card: ModelCard, aliases: Aliases): ModelCard {
  const given = Object.entries(aliases)
  return {
    ...card,
    serves: card.serves.map((one) => {
      const names = [one.id, ...one.aliases]
      const further = given.filter(([alias, target]) => names.includes(target) && !names.includes(alias))
      return { ...one, aliases: [...one.aliases, ...further.map(([alias]) => alias)] }
    }),
  }
}
