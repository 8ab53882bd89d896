import { stat } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { parseJsonOr } from '../lib/json/parse-json.ts'
import { isObject } from './card-values.ts'
import { readPlain } from './read/plain-file.ts'

const FILE_FIELDS = ['model', 'projector', 'chatTemplate'] as const

/** Versions of a card and of the files that it names, by path. A missing file is left out. */
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

/** Whether two lists of files are equal. */
export function areSame(a: Readonly<Record<string, string>>, b: Readonly<Record<string, string>>): boolean {
  return JSON.stringify(a) === JSON.stringify(b)
}

/** The contents of a card; null if it is not a JSON object. */
export async function readWritten(card: string): Promise<Readonly<Record<string, unknown>> | null> {
  const written = await readJson(card)
  return isObject(written) ? written : null
}

/** Null for a file that cannot be read, or is not JSON. */
export async function readJson(path: string): Promise<unknown> {
  return parseJsonOr(await readPlain(path).catch(() => ''), null)
}
