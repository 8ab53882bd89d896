import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'

/**
 * The cards at the given paths, in order: a path is a card, or a folder that holds a `card.json` or folders with one
 * each.
 * @throws Error for a path without a card.
 */
export async function findCards(paths: readonly string[]): Promise<string[]> {
  const found = await Promise.all(paths.map(cardsAt))
  return [...new Set(found.flat())]
}

async function cardsAt(path: string): Promise<string[]> {
  const entry = await stat(path).catch(() => null)
  if (entry === null) throw new Error(`No model card at ${path}: there is no such file or folder`)
  if (!entry.isDirectory()) return [path]
  const own = join(path, CARD_FILE)
  if (await isFile(own)) return [own]
  const inner = (await readdir(path)).sort().map((name) => join(path, name, CARD_FILE))
  const cards: string[] = []
  for (const card of inner) if (await isFile(card)) cards.push(card)
  if (cards.length === 0)
    throw new Error(`No model card at ${path}: neither it nor a folder in it holds a ${CARD_FILE}`)
  return cards
}

const CARD_FILE = 'card.json'

async function isFile(path: string): Promise<boolean> {
  const entry = await stat(path).catch(() => null)
  return entry?.isFile() ?? false
}
