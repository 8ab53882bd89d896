import { readFile } from 'node:fs/promises'
import { editDistance } from '../config/nearest-name.ts'
import { lazy } from '../lib/lazy.ts'
import { type CatalogueEntry, catalogueSchema } from './catalogue-schema.ts'

const FILE = new URL('../../models/catalogue.json', import.meta.url)
/** Maximum names in an error. */
const MAX_CLOSE = 3

/** The models that Lookout recommends, from `models/catalogue.json`. */
export const readCatalogue = lazy(async () => catalogueSchema.parse(JSON.parse(await readFile(FILE, 'utf8'))))

/** The entry with a short name such as `qwen3-vl-4b`, ignoring case; undefined if the catalogue lacks it. */
export async function findEntry(name: string): Promise<CatalogueEntry | undefined> {
  const wanted = name.toLowerCase()
  return (await readCatalogue()).models.find((entry) => entry.name === wanted)
}

/** The entry with files in a repository of the hub, ignoring case; undefined if there is none or several. */
export async function findEntryOf(repository: string): Promise<CatalogueEntry | undefined> {
  const wanted = repository.toLowerCase()
  const found = (await readCatalogue()).models.filter((entry) => entry.repository.toLowerCase() === wanted)
  return found.length === 1 ? found[0] : undefined
}

/** Short names that a misspelt name may have meant, closest first. */
export async function closeNames(name: string): Promise<string[]> {
  // Much longer names are not misspellings, and comparing takes time proportional to the length.
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
