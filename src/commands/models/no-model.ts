import { findEntry } from '../../catalogue/catalogue.ts'
import { ConfigError } from '../../config/config.ts'

/** Advice if neither the settings nor the model store have a model. */
export const NO_MODEL =
  'there is no model yet; "npx lookout pull" lists models that fit this machine, and "npm install lookout-nano" gets Lookout Nano, the demonstration model'

/**
 * The name under which a model is served, given any name of it: names of the catalogue ignore case.
 * @param has whether a model has the name, or has it as an alias.
 * @returns null if no model has it.
 */
export async function nameOfModel(given: string, has: (name: string) => Promise<boolean>): Promise<string | null> {
  if (await has(given)) return given
  const known = await catalogueName(given)
  return known !== null && (await has(known)) ? known : null
}

/** The error for a name that no model has; null if it is not in the catalogue. */
export async function notPulled(name: string): Promise<ConfigError | null> {
  const known = await catalogueName(name)
  return known === null ? null : new ConfigError(`'${known}' is not here yet; get it with: npx lookout pull ${known}`)
}

async function catalogueName(given: string): Promise<string | null> {
  const [, short, quant = ''] = /^([^:]+)(:.+)?$/s.exec(given) ?? []
  const entry = short === undefined ? undefined : await findEntry(short)
  return entry === undefined ? null : entry.name + quant.toUpperCase()
}
