import { stat } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { parseJsonOr } from '../lib/json/parse-json.ts'
import { isObject } from './card-values.ts'
import { readPlain } from './read/plain-file.ts'

const FILE_FIELDS = ['model', 'projector', 'chatTemplate'] as const

/** A card and the files that it names, by path: what changes when the file does. A file that is missing is left out. */
export async function filesOf(card: string): Promise<Record<string, string>> {
  const engine = (await readWritten(card))?.engine
  const names = isObject(engine) ? FILE_FIELDS.map((field) => engine[field]) : []
  const paths = names.filter((name) => typeof name === 'string').map((name) => resolve(dirname(card), name))
  const files: Record<string, string> = {}
  for (const path of [card, ...paths]) {
    const entry = await stat(path).catch(() => null)
    if (entry !== null) files[path] = `${entry.mtimeMs} ${entry.size}`
  }
  return files
}

/** Whether two lists of files say the same. */
export function areSame(a: Readonly<Record<string, string>>, b: Readonly<Record<string, string>>): boolean {
  return JSON.stringify(a) === JSON.stringify(b)
}

/** What is written in a card; null for what is no object of JSON. */
export async function readWritten(card: string): Promise<Readonly<Record<string, unknown>> | null> {
  const written = await readJson(card)
  return isObject(written) ? written : null
}

/** Null for a file that cannot be read, or is no JSON. */
export async function readJson(path: string): Promise<unknown> {
  return parseJsonOr(await readPlain(path).catch(() => ''), null)
}
