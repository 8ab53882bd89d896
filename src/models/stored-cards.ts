import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'

/** The contents of the model store: each folder that holds a `card.json` is a model. */
export interface StoredCards {
  /** By the paths of the cards, in the order of their folders. The value changes when the card is replaced. */
  readonly cards: ReadonlyMap<string, string>
  /** Folders that have no card, or none yet. */
  readonly unfinished: readonly string[]
}

/**
 * Lists the model store; without one, there are no models. A folder whose name begins with a dot does not count.
 * @throws Error when the store cannot be read.
 */
export async function findStoredCards(directory: string): Promise<StoredCards> {
  const entries = await readdir(directory).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return []
    throw error
  })
  const names = entries.filter((name) => !name.startsWith('.')).sort()
  const cards = new Map<string, string>()
  const unfinished: string[] = []
  const found = await Promise.all(names.map((name) => versionOf(join(directory, name, CARD_FILE))))
  for (const [index, version] of found.entries()) {
    const folder = join(directory, names[index]!)
    if (version === null) unfinished.push(folder)
    else cards.set(join(folder, CARD_FILE), version)
  }
  return { cards, unfinished }
}

const CARD_FILE = 'card.json'

/** Null if there is no such file. */
async function versionOf(file: string): Promise<string | null> {
  const entry = await stat(file).catch(() => null)
  return entry?.isFile() ? `${entry.mtimeMs} ${entry.size} ${entry.ino}` : null
}
