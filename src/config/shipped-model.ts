import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'

/** The npm package of the shipped model; a clone of the repository has the same files in `models/`. */
const NAME = 'lookout-nano'

/** Shown to users of the shipped model. */
export const DEMONSTRATION_NOTE =
  'Lookout Nano is a demonstration model: shapes, emoji, printed words. For photographs: npx lookout pull'

/** Path of the shipped model's card; null if the model is not installed. */
export function findShippedCard(): string | null {
  const own = fileURLToPath(new URL(`../../models/${NAME}/card.json`, import.meta.url))
  if (existsSync(own)) return own
  try {
    return createRequire(import.meta.url).resolve(`${NAME}/card.json`)
  } catch {
    return null
  }
}

/** Whether a card is that of the shipped model, which is only a demonstration. */
export function isDemonstration({ file }: { readonly file: string }): boolean {
  return file === findShippedCard()
}
