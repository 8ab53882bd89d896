import { createHash } from 'node:crypto'
import { readFile, rm } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { z } from 'zod'
import { parseJsonOr } from '../../lib/json/parse-json.ts'
import { makeFolder } from '../../lib/make-folder.ts'
import { KV_TYPES, type KvType } from '../../models/derive/kv-cost.ts'
import { forgetExamination } from '../../models/kept-examination.ts'
import { partPaths } from '../../models/read/weight-files.ts'
import { findStoredCards } from '../../models/stored-cards.ts'
import { forgetUnread } from '../../models/unread-cards.ts'
import { HubError } from '../hub-error.ts'
import { writeAtomically } from './hub-cache.ts'
import { folderName } from './safe-names.ts'

/** A card that `pull` or `add` has written. */
export interface StoredCard {
  /** Absolute path of the card. */
  readonly file: string
  /** The ids that it serves. */
  readonly ids: readonly string[]
  /** Other names of them, such as the catalogue's. */
  readonly aliases: readonly string[]
  /** `hf:user/repo@<commit>`, `https://...` or `file:/...`. */
  readonly source: string | null
  /** Absolute paths; for a split model, that of the first part. */
  readonly model: string
  readonly projector: string | null
}

export interface NewCard {
  readonly id: string
  /** The catalogue's names of the model. The card gets those that are not ids of other cards. */
  readonly aliases: readonly string[]
  readonly source: string
  readonly model: string
  readonly projector: string | null
  /** Whether the user wanted no projector. */
  readonly isTextByWish?: boolean
  /** If absent, those of an existing card are kept. */
  readonly adapters?: readonly NewAdapter[]
}

export interface NewAdapter {
  readonly name: string
  /** Absolute. */
  readonly path: string
}

const CARD = 'card.json'
const TEXT = ['text']
const servedSchema = z.looseObject({ id: z.string(), aliases: z.unknown().optional(), adapter: z.unknown().optional() })
const adaptersSchema = z.array(z.looseObject({ name: z.string(), path: z.string() }))
const cardSchema = z.looseObject({
  serves: z.array(servedSchema).min(1),
  source: z.string().optional(),
  engine: z.looseObject({
    model: z.string(),
    projector: z.string().optional(),
    kvType: z.unknown().optional(),
    adapters: z.unknown().optional(),
  }),
})

/** All cards in the store, by their ids. Files that are no cards are left out. */
export async function storedCards(directory: string): Promise<StoredCard[]> {
  const { cards } = await findStoredCards(directory)
  const found = await Promise.all([...cards.keys()].map(readCard))
  return found.filter((card) => card !== null).sort((a, b) => a.ids[0]!.localeCompare(b.ids[0]!, 'en'))
}

/** The `kvType` of cards in the store that set one, by id. A card that is rewritten keeps it. */
export async function storedKvTypes(directory: string): Promise<ReadonlyMap<string, KvType>> {
  const types = new Map<string, KvType>()
  for (const { file, ids } of await storedCards(directory)) {
    const written = (await parseCard(file))?.engine.kvType
    const type = KV_TYPES.find((one) => one === written)
    if (type !== undefined) for (const id of ids) types.set(id, type)
  }
  return types
}

/** The folder that a model's card has or would get, which no other model uses. */
export async function cardFolder(directory: string, id: string): Promise<string> {
  const cards = await storedCards(directory)
  const own = cards.find(({ ids }) => ids.includes(id))
  if (own !== undefined) return dirname(own.file)
  const plain = join(directory, folderName(id))
  const taken = cards.some(({ file }) => dirname(file).toLowerCase() === plain.toLowerCase())
  return taken ? `${plain}-${createHash('sha256').update(id).digest('hex').slice(0, 8)}` : plain
}

type Served = z.infer<typeof servedSchema>

/**
 * Writes a card with what only the download knows; the rest is derived from the files when the card is read. Other fields of
 * an existing card with the same id are kept. Aliases move from the card that had them: the quantisation that was
 * fetched last gets the catalogue's short name.
 * @returns the new card, and the one of the same id that it replaces.
 */
export async function storeCard(
  directory: string,
  card: NewCard,
): Promise<{ readonly card: StoredCard; readonly replaced: StoredCard | null }> {
  const { id, source, model, projector, adapters } = card
  const others = (await storedCards(directory)).filter(({ ids }) => !ids.includes(id))
  const taken = new Set([id, ...others.flatMap(({ ids }) => ids)])
  const aliases = card.aliases.filter((alias) => !taken.has(alias))
  // Two cards must not share a name even for a moment: a server would leave out one of them.
  for (const other of others) await dropAliases(other, [id, ...aliases])
  const folder = await cardFolder(directory, id)
  const file = join(folder, CARD)
  const replaced = await readCard(file)
  const { serves: written = [{ id }], engine: old, ...rest } = (replaced && (await parseCard(file))) ?? {}
  const serves = written
    .map((served) => (served.id === id ? withAliases(served, aliases) : served))
    .map((served) => withModalities(served, card, replaced))
  const { model: _, projector: __, ...engine } = old ?? {}
  const files = { model, ...(projector === null ? {} : { projector }) }
  await makeFolder(folder, 0o777)
  const added = adapters === undefined ? {} : { adapters: adapters.length === 0 ? undefined : adapters }
  await writeCard(file, { ...rest, serves, source, engine: { ...files, ...engine, ...added } })
  const names = serves.filter((served) => served.id === id).flatMap(aliasesOf)
  return { card: { file, ids: [id], aliases: names, source, model, projector }, replaced }
}

/** A model that is added without a projector on purpose serves only text until it gets one, without a warning. */
function withModalities(served: Served, { projector, isTextByWish }: NewCard, replaced: StoredCard | null): Served {
  if (isTextByWish) return { ...served, modalities: TEXT }
  const isOutdated = projector !== null && replaced?.projector === null && String(served.modalities) === String(TEXT)
  return isOutdated ? { ...served, modalities: undefined } : served
}

/** Absolute paths of all files of a card. */
export function filesOf({ model, projector }: StoredCard): string[] {
  return [model, ...(projector === null ? [] : [projector])].flatMap(partPaths)
}

/** `user/repo` of a model of the hub, by the source of its card. */
export function repositoryOf(source: string | null): string | null {
  return /^hf:([^@]+)@/.exec(source ?? '')?.[1] ?? null
}

export async function removeCard({ file }: StoredCard): Promise<void> {
  await rm(file, { force: true })
  await forgetUnread(file)
  await forgetExamination(file)
}

/**
 * Removes the adapter that is served under an id from its model's card.
 * @returns the absolute path of its file; null for an id that is not one of an adapter.
 * @throws HubError when the model that the id begins with has adapters, but not this one.
 */
export async function removeAdapter(directory: string, id: string): Promise<string | null> {
  const cards = await storedCards(directory)
  for (const { file } of cards) {
    const card = await parseCard(file)
    const adapters = adaptersSchema.safeParse(card?.engine.adapters).data ?? []
    const base = card?.serves.find(({ adapter }) => adapter === undefined)
    if (card === null || base === undefined || adapters.length === 0) continue
    const behind = id.startsWith(`${base.id}:`) ? id.slice(base.id.length + 1) : undefined
    const name = card.serves.find((served) => served.id === id)?.adapter ?? behind
    if (name === undefined) continue
    const found = adapters.find((adapter) => adapter.name === name)
    if (found !== undefined) {
      const rest = adapters.filter((adapter) => adapter !== found)
      const engine = { ...card.engine, adapters: rest.length === 0 ? undefined : rest }
      await writeCard(file, { ...card, serves: card.serves.filter(({ adapter }) => adapter !== name), engine })
      return resolve(dirname(file), found.path)
    }
    const names = adapters.map((adapter) => adapter.name).join(', ')
    if (!cards.some(({ ids }) => ids.includes(id)))
      throw new HubError(`${base.id} has no adapter '${name}'; it has ${names}`)
  }
  return null
}

/** Adds an alias to the first id of a card. */
export async function addAlias({ file }: StoredCard, alias: string): Promise<void> {
  await changeServes(file, (served, index) => (index === 0 ? withAliases(served, [alias]) : served))
}

async function dropAliases({ file, aliases }: StoredCard, names: readonly string[]): Promise<void> {
  if (!aliases.some((alias) => names.includes(alias))) return
  await changeServes(file, (served) => ({
    ...served,
    aliases: aliasesOf(served).filter((alias) => !names.includes(alias)),
  }))
}

async function changeServes(file: string, change: (served: Served, index: number) => Served): Promise<void> {
  const card = await parseCard(file)
  if (card !== null) await writeCard(file, { ...card, serves: card.serves.map(change) })
}

async function writeCard(file: string, card: object): Promise<void> {
  await writeAtomically(file, `${JSON.stringify(card, null, 2)}\n`)
}

function withAliases(served: Served, aliases: readonly string[]): Served {
  return aliases.length === 0 ? served : { ...served, aliases: [...new Set([...aliasesOf(served), ...aliases])] }
}

function aliasesOf({ aliases }: Served): string[] {
  return Array.isArray(aliases) ? aliases.filter((alias) => typeof alias === 'string') : []
}

async function parseCard(file: string): Promise<z.infer<typeof cardSchema> | null> {
  return cardSchema.safeParse(parseJsonOr(await readFile(file, 'utf8').catch(() => ''), null)).data ?? null
}

async function readCard(file: string): Promise<StoredCard | null> {
  const card = await parseCard(file)
  if (card === null) return null
  const { serves, source, engine } = card
  const at = (path: string) => resolve(dirname(file), path)
  return {
    file,
    ids: serves.map(({ id }) => id),
    aliases: serves.flatMap(aliasesOf),
    source: source ?? null,
    model: at(engine.model),
    projector: engine.projector === undefined ? null : at(engine.projector),
  }
}
