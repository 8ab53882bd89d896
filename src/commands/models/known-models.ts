import { stat } from 'node:fs/promises'
import { type Config, ConfigError } from '../../config/config.ts'
import { addAliases, withAliases, withoutTaken } from '../../inference/catalog/aliases.ts'
import { describeCard } from '../../inference/engines/engines.ts'
import { findCards, type ModelCard, type ReadCard, readCard } from '../../models/card.ts'
import { findStoredCards } from '../../models/stored-cards.ts'
import { namesIn, readUnlessFatal } from '../../models/unread-cards.ts'
import { warn } from '../warn.ts'
import { NO_MODEL, nameOfModel, notPulled } from './no-model.ts'

/**
 * The cards of the models that a server with these settings would serve, including aliases: those that the settings
 * name, then those of the model store. As on a server, a stored card that cannot be used only causes a warning.
 * @param note receives warnings, in one line each, with the card that they concern.
 * @param unusable called with stored cards that cannot be used; by default, it warns.
 * @throws Error for a card of the settings that cannot be used, or an alias of no model.
 */
export async function readKnownCards(
  { modelCards, modelStore, aliases }: Pick<Config, 'modelCards' | 'modelStore' | 'aliases'>,
  note: (message: string, file: string) => void = warn,
  unusable: (file: string, error: Error) => void = (file, error) =>
    note(`A stored model is not served: ${error.message}`, file),
): Promise<readonly ReadCard[]> {
  const read = await Promise.all(
    (await findCards(modelCards)).map((file) => readCard(file, (message) => note(message, file))),
  )
  const taken = new Set(read.flatMap(({ card }) => namesOf(card)))
  const stored = (await findStoredCards(modelStore)).cards
  for (const file of stored.keys()) {
    try {
      const found = await readUnlessFatal(file, () =>
        readCard(file, (message) => note(message, file), { load: 'first_use' }),
      )
      const ids = found.card.serves.map(({ id }) => id)
      const other = ids.find((id) => taken.has(id))
      if (other !== undefined) throw new Error(`${file}: '${other}' is the name of another model`)
      const isTaken = (name: string) =>
        taken.has(name) || (Object.hasOwn(aliases, name) && !ids.includes(aliases[name]!))
      const one = { ...found, card: withoutTaken(found.card, isTaken, (message) => note(message, file)) }
      for (const name of namesOf(one.card)) taken.add(name)
      read.push(one)
    } catch (error) {
      unusable(file, error as Error)
    }
  }
  withAliases(
    read.map(({ card }) => card),
    aliases,
    stored.size === 0 ? null : (message) => note(message, ''),
  )
  return read.map((one) => ({ ...one, card: addAliases(one.card, aliases) }))
}

/** @throws ConfigError for an id that the settings' models have: a stored model of that id would not be served. */
export async function checkId(id: string | null, { modelCards }: Pick<Config, 'modelCards'>): Promise<void> {
  if (id === null) return
  for (const file of await findCards(modelCards)) {
    // A card that cannot be used is reported when it is served.
    const read = await readCard(file, () => {}).catch(() => null)
    if (read !== null && namesOf(read.card).includes(id))
      throw new ConfigError(`--id: '${id}' is the name of a model of the settings (${file})`)
  }
}

/**
 * Warns of parts that a new card leaves out of its model, and of assumptions. Its errors are reported when it is
 * served.
 */
export async function warnOfCard(file: string): Promise<void> {
  const describe = async () => {
    const { card } = await readCard(file, warn, { load: 'first_use' })
    for (const warning of (await describeCard(card)).warnings) warn(warning)
  }
  await readUnlessFatal(file, describe).catch(() => null)
}

/**
 * The card of one model, given a path to a card, to a folder with one or to a GGUF file, or a known model's id or
 * alias.
 * @throws ConfigError that lists the models if none has the name; the error of a stored card that has it.
 */
export async function findKnownCard(
  model: string,
  config: Config,
  note: (message: string) => void = warn,
): Promise<ReadCard> {
  // A path takes precedence over the known models, so that broken cards among these do not matter.
  if ((await stat(model).catch(() => null)) !== null) {
    const [file] = await findCards([model])
    return readCard(file!, note)
  }
  const warnings = new Map<string, string[]>()
  const unusable: { readonly file: string; readonly error: Error }[] = []
  const known = await readKnownCards(
    config,
    (message, file) => warnings.set(file, [...(warnings.get(file) ?? []), message]),
    (file, error) => unusable.push({ file, error }),
  )
  const cardOf = (name: string | null) => known.find(({ card }) => name !== null && namesOf(card).includes(name))
  const found = cardOf(await nameOfModel(model, async (name) => cardOf(name) !== undefined))
  if (found === undefined) {
    for (const { file, error } of unusable) if ((await namesIn(file)).includes(model)) throw error
    const problem = await notPulled(model)
    if (problem !== null) throw problem
    if (known.length === 0) throw new ConfigError(NO_MODEL)
    const ids = known.flatMap(({ card }) => card.serves.map(({ id }) => id))
    throw new ConfigError(`'${model}' is neither a file nor a model; the models are ${ids.join(', ')}`)
  }
  warnings.get(found.card.file)?.forEach(note)
  return found
}

function namesOf({ serves }: ModelCard): string[] {
  return serves.flatMap(({ id, aliases }) => [id, ...aliases])
}
