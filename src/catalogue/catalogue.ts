import { readFile } from 'node:fs/promises'
import { editDistance } from '../config/nearest-name.ts'
import { lazy } from '../lib/lazy.ts'
import { type CatalogueEntry, catalogueSchema } from './catalogue-schema.ts'

const FILE = new URL('../../models/catalogue.json', import.meta.url)
/** Names in an error. */
const MAX_CLOSE = 3

/** The models that Lookout recommends, from `models/catalogue.json`. */
export const readCatalogue = lazy(async () => catalogueSchema.parse(JSON.parse(await readFile(FILE, 'utf8'))))

/** The entry of a short name such as `qwen3-vl-4b`, in any case; undefined for a name that the catalogue lacks. */
export async function findEntry(name: string): Promise<CatalogueEntry | undefined> {
  const wanted = name.toLowerCase()
  return (await readCatalogue()).models.find((entry) => entry.name === wanted)
}

/** The entry whose files are in a repository of the hub, in any case; undefined where none or several are. */
export async function findEntryOf(repository: string): Promise<CatalogueEntry | undefined> {
  const wanted = repository.toLowerCase()
  const found = (await readCatalogue()).models.filter((entry) => entry.repository.toLowerCase() === wanted)
  return found.length === 1 ? found[0] : undefined
}

/** Short names that a name may have been meant to be, the closest first. */
export async function closeNames(name: string): Promise<string[]> {
  // Far longer ones are no misspelling, and comparing takes time in proportion to the length.
  const wanted = name.toLowerCase().slice(0, 100)
  const distances = (await readCatalogue()).models.map((entry) => {
    const isPart = wanted.length > 2 && entry.name.includes(wanted)
    return { name: entry.name, distance: isPart ? 0 : editDistance(wanted, entry.name) / entry.name.length }
  })
  return distances
    .filter(({ distance }) => distance <= 0.4)
    .sort((a, b) => a.distance - b.distance)
    .slice(0, MAX_CLOSE)
    .map(({ name }) => name)
}
