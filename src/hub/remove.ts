import { lstat, rm, rmdir } from 'node:fs/promises'
import { dirname, join, relative } from 'node:path'
import { incompletePath } from './fetch-file.ts'
import { partPaths } from './gguf-names.ts'
import { CachedRepository, isWithin, realOr } from './hub-cache.ts'
import { HubError } from './hub-error.ts'
import { removeCard, type StoredCard, storedCards } from './model-store.ts'

export interface Removal {
  readonly card: StoredCard
  /** Bytes that the disk has again. */
  readonly freedBytes: number
  /** Files that stay, and why. */
  readonly kept: readonly { readonly path: string; readonly reason: string }[]
}

export interface RemovalOptions {
  readonly store: string
  readonly cacheRoot: string
  readonly keepFiles: boolean
}

/**
 * Removes a model's card, and the files that were fetched for it and that nobody else uses.
 * @param name an id, or one without the quantisation where that is enough.
 * @throws HubError
 */
export async function removeModel(name: string, { store, cacheRoot, keepFiles }: RemovalOptions): Promise<Removal> {
  const cards = await storedCards(store)
  const card = findCard(cards, name)
  const others = cards.filter((other) => other !== card)
  await removeCard(card)
  const kept: { path: string; reason: string }[] = []
  let freedBytes = 0
  const isOwn = card.source?.startsWith('file:') !== true
  for (const path of keepFiles ? [] : filesOf(card)) {
    const removal = isOwn ? await removeFile(path, card, others, { store, cacheRoot }) : "it is the user's own"
    if (typeof removal === 'number') freedBytes += removal
    else kept.push({ path, reason: removal })
  }
  // It fails where something is left in the folder.
  await rmdir(dirname(card.file)).catch(() => {})
  return { card, freedBytes, kept }
}

function findCard(cards: readonly StoredCard[], name: string): StoredCard {
  const exact = cards.find(({ ids }) => ids.includes(name))
  if (exact !== undefined) return exact
  const similar = cards.filter(({ ids }) => ids.some((id) => id.startsWith(`${name}:`)))
  if (similar.length === 1) return similar[0]!
  const ids = (similar.length > 1 ? similar : cards).map((card) => card.ids[0]!).join(', ')
  if (similar.length > 1) throw new HubError(`There are several models ${name}; name one of ${ids}`)
  throw new HubError(`No model '${name}' was pulled or added${ids === '' ? '' : `; there are ${ids}`}`)
}

function filesOf({ model, projector }: StoredCard): string[] {
  return [model, ...(projector === null ? [] : [projector])].flatMap(partPaths)
}

/** @returns the bytes that were freed, or why the file stays. */
async function removeFile(
  path: string,
  { source }: StoredCard,
  others: readonly StoredCard[],
  { store, cacheRoot }: Pick<RemovalOptions, 'store' | 'cacheRoot'>,
): Promise<number | string> {
  const user = await userOf(path, others)
  if (user !== null) return `${user} uses it`
  if (isWithin(store, path)) {
    const bytes = await sizeOf(path)
    await rm(path, { force: true })
    await rm(incompletePath(path), { force: true })
    return bytes
  }
  const [, id] = /^hf:([^@]+)@/.exec(source ?? '') ?? []
  if (id === undefined || !isWithin(cacheRoot, path)) return 'it lies outside of the cache'
  const repository = new CachedRepository(cacheRoot, id)
  const blob = await repository.blobOf(path)
  if (blob === null) return 'it lies outside of the cache'
  const isShared = (await repository.linkedBlobs(new Set([path]))).has(blob)
  const bytes = await sizeOf(blob)
  await rm(path, { force: true })
  if (isShared) {
    await repository.prune()
    return `another snapshot in ${join(repository.folder, 'snapshots')} uses it`
  }
  await rm(blob, { force: true })
  await repository.prune()
  return bytes
}

/** The id of another model with the same file. */
async function userOf(path: string, others: readonly StoredCard[]): Promise<string | null> {
  const real = await realOr(path)
  for (const other of others) {
    for (const file of filesOf(other)) {
      if (relative(file, path) === '' || (await realOr(file)) === real) return other.ids[0]!
    }
  }
  return null
}

async function sizeOf(path: string): Promise<number> {
  return (await lstat(path).catch(() => null))?.size ?? 0
}
