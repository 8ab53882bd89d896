import { readFile } from 'node:fs/promises'
import { type Catalogue, type CatalogueEntry, catalogueSchema } from './catalogue-schema.ts'

const FILE = new URL('../../models/catalogue.json', import.meta.url)

let read: Promise<Catalogue> | undefined

/** The models that Lookout recommends, from `models/catalogue.json`. */
export function readCatalogue(): Promise<Catalogue> {
  read ??= readFile(FILE, 'utf8').then((text) => catalogueSchema.parse(JSON.parse(text)))
  return read
}

/** The entry of a short name such as `qwen3-vl-4b`, in any case; undefined for a name that the catalogue lacks. */
export async function findEntry(name: string): Promise<CatalogueEntry | undefined> {
  const wanted = name.toLowerCase()
  return (await readCatalogue()).models.find((entry) => entry.name === wanted)
}
