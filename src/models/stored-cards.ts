import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'

/**
 * The cards in the model store, by their paths: each folder in it that holds a `card.json` is a model. The value changes
 * when the card is replaced. Empty where there is no store. A folder whose name begins with a dot is not finished.
 * @throws Error when the store cannot be read.
 */
export async function findStoredCards(directory: string): Promise<ReadonlyMap<string, string>> {
  const names = await readdir(directory).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return []
    throw error
  })
  const files = names
    .filter((name) => !name.startsWith('.'))
    .sort()
    .map((name) => join(directory, name, 'card.json'))
  const versions = await Promise.all(files.map(versionOf))
  return new Map(files.flatMap((file, index) => (versions[index] === null ? [] : [[file, versions[index]!]])))
}

/** Null where there is no such file. */
async function versionOf(file: string): Promise<string | null> {
  const entry = await stat(file).catch(() => null)
  return entry?.isFile() ? `${entry.mtimeMs} ${entry.size} ${entry.ino}` : null
}
