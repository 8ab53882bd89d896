import { createHash } from 'node:crypto'
import { mkdir, readFile, rm } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { z } from 'zod'
import { forgetExamination } from '../models/kept-examination.ts'
import { KV_TYPES, type KvType } from '../models/kv-cost.ts'
import { findStoredCards } from '../models/stored-cards.ts'
import { forgetUnread } from '../models/unread-cards.ts'
import { writeAtomically } from './hub-cache.ts'
import { folderName } from './safe-names.ts'

/** A card that `pull` or `add` has written. */
export interface StoredCard {
  /** Absolute path of the card. */
  readonly file: string
  /** The ids that it serves. */
  readonly ids: readonly string[]
  /** `hf:user/repo@<commit>`, `https://...` or `file:/...`. */
  readonly source: string | null
  /** Absolute paths; a model in parts is named by the first. */
  readonly model: string
  readonly projector: string | null
}

export interface NewCard {
  readonly id: string
  readonly source: string
  readonly model: string
  readonly projector: string | null
}

const CARD = 'card.json'
const cardSchema = z.looseObject({
  serves: z.array(z.looseObject({ id: z.string() })).min(1),
  source: z.string().optional(),
  engine: z.looseObject({ model: z.string(), projector: z.string().optional(), kvType: z.unknown().optional() }),
})

/** All cards in the store, by their ids. Files that are no cards are left out. */
export async function storedCards(directory: string): Promise<StoredCard[]> {
  const { cards } = await findStoredCards(directory)
  const found = await Promise.all([...cards.keys()].map(readCard))
  return found.filter((card) => card !== null).sort((a, b) => a.ids[0]!.localeCompare(b.ids[0]!, 'en'))
}

/** How the cards in the store have keys and values stored, by id, where they say so. A card that is rewritten keeps it. */
export async function storedKvTypes(directory: string): Promise<ReadonlyMap<string, KvType>> {
  const types = new Map<string, KvType>()
  for (const { file, ids } of await storedCards(directory)) {
    const written = (await parseCard(file))?.engine.kvType
    const type = KV_TYPES.find((one) => one === written)
    if (type !== undefined) for (const id of ids) types.set(id, type)
  }
  return types
}

/** The folder that a model's card has, or would get: no other model's. */
export async function cardFolder(directory: string, id: string): Promise<string> {
  const cards = await storedCards(directory)
  const own = cards.find(({ ids }) => ids.includes(id))
  if (own !== undefined) return dirname(own.file)
  const plain = join(directory, folderName(id))
  const taken = cards.some(({ file }) => dirname(file).toLowerCase() === plain.toLowerCase())
  return taken ? `${plain}-${createHash('sha256').update(id).digest('hex').slice(0, 8)}` : plain
}

/**
 * Writes a card with what only the fetching knows; the rest is derived from the files when it is read. Of a card of the
 * same id that is there, whatever else somebody has written into it stays.
 * @returns the new card, and the one of the same id that it replaces.
 */
export async function storeCard(
  directory: string,
  card: NewCard,
): Promise<{ readonly card: StoredCard; readonly replaced: StoredCard | null }> {
  const { id, source, model, projector } = card
  const folder = await cardFolder(directory, id)
  const file = join(folder, CARD)
  const replaced = await readCard(file)
  const { serves = [{ id }], engine: old, ...rest } = (replaced && (await parseCard(file))) ?? {}
  const { model: _, projector: __, ...engine } = old ?? {}
  const files = { model, ...(projector === null ? {} : { projector }) }
  await mkdir(folder, { recursive: true })
  const text = JSON.stringify({ ...rest, serves, source, engine: { ...files, ...engine } }, null, 2)
  await writeAtomically(file, `${text}\n`)
  return { card: { file, ids: [id], source, model, projector }, replaced }
}

export async function removeCard({ file }: StoredCard): Promise<void> {
  await rm(file, { force: true })
  await forgetUnread(file)
  await forgetExamination(file)
}

async function parseCard(file: string): Promise<z.infer<typeof cardSchema> | null> {
  try {
    return cardSchema.safeParse(JSON.parse(await readFile(file, 'utf8'))).data ?? null
  } catch {
    return null
  }
}

async function readCard(file: string): Promise<StoredCard | null> {
  const card = await parseCard(file)
  if (card === null) return null
  const { serves, source, engine } = card
  const at = (path: string) => resolve(dirname(file), path)
  return {
    file,
    ids: serves.map(({ id }) => id),
    source: source ?? null,
    model: at(engine.model),
    projector: engine.projector === undefined ? null : at(engine.projector),
  }
}
