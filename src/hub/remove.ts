import { lstat, rm, rmdir } from 'node:fs/promises'
import { dirname, join, relative } from 'node:path'
import { findEntry } from '../catalogue/catalogue.ts'
import { CachedRepository, isWithin, realOr } from './cache/hub-cache.ts'
import { addAlias, filesOf, removeCard, repositoryOf, type StoredCard, storedCards } from './cache/model-store.ts'
import { incompletePath } from './download/fetch-file.ts'
import { journalPath } from './download/journal.ts'
import { HubError } from './hub-error.ts'
import { formatBytes } from './units.ts'

export interface Removal {
  readonly card: StoredCard
  /** Bytes freed on the disk. */
  readonly freedBytes: number
  /** Files that stay, and why. */
  readonly kept: readonly Kept[]
}

interface Kept {
  readonly path: string
  readonly reason: string
}

export interface RemovalOptions {
  readonly store: string
  readonly cacheRoot: string
  readonly keepFiles: boolean
  /** Called after the card is removed and before its files are. */
  readonly onCardRemoved?: () => Promise<void>
}

/**
 * Removes a model's card, and the files that were fetched for it and that no other model uses. Its name in the catalogue
 * moves to another quantisation, if there is one.
 * @param name an id or an alias; or a repository or a name of the catalogue, without the quantisation if that is
 * unambiguous.
 * @throws HubError
 */
export async function removeModel(
  name: string,
  { store, cacheRoot, keepFiles, onCardRemoved }: RemovalOptions,
): Promise<Removal> {
  const cards = await storedCards(store)
  const card = await findCard(cards, name)
  const others = cards.filter((other) => other !== card)
  await removeCard(card)
  await passOnNames(card, others)
  await onCardRemoved?.()
  const kept: Kept[] = []
  let freedBytes = 0
  const isOwn = card.source?.startsWith('file:') !== true
  for (const path of keepFiles ? [] : filesOf(card)) {
    const removal = isOwn
      ? await removeFile(path, card, others, { store, cacheRoot })
      : { path, reason: "it is the user's own" }
    if (typeof removal !== 'number') kept.push(removal)
    else {
      freedBytes += removal
      kept.push(...(await otherCommitsOf(path, card, others, cacheRoot)))
    }
  }
  // It fails if the folder is not empty.
  await rmdir(dirname(card.file)).catch(() => {})
  return { card, freedBytes, kept }
}

async function findCard(cards: readonly StoredCard[], name: string): Promise<StoredCard> {
  const exact = cards.find(({ ids }) => ids.includes(name))
  if (exact !== undefined) return exact
  const similar = await similarTo(cards, name)
  if (similar.length === 1) return similar[0]!
  const named = cards.find(({ aliases }) => aliases.includes(name))
  if (similar.length === 0 && named !== undefined) return named
  const ids = (similar.length > 1 ? similar : cards).map((card) => card.ids[0]!).join(', ')
  if (similar.length > 1) throw new HubError(`Several models are named ${name}; choose one of ${ids}`)
  throw new HubError(`No model '${name}' was pulled or added${ids === '' ? '' : `; there are ${ids}`}`)
}

/** The models of a repository or of a name in the catalogue. With a quantisation after that name, only this one. */
async function similarTo(cards: readonly StoredCard[], name: string): Promise<StoredCard[]> {
  const [, short, quant] = /^([^:]+)(?::(.+))?$/s.exec(name) ?? []
  const entry = short === undefined ? undefined : await findEntry(short)
  if (entry === undefined) return cards.filter(({ ids }) => ids.some((id) => id.startsWith(`${name}:`)))
  const prefixes = [entry.repository, entry.name].map((one) => `${one}:`.toLowerCase())
  const isWanted = (one: string) =>
    prefixes.some((prefix) => (quant === undefined ? one.startsWith(prefix) : one === prefix + quant.toLowerCase()))
  return cards.filter(({ ids, aliases }) => [...ids, ...aliases].some((one) => isWanted(one.toLowerCase())))
}

/** The short names of a removed model go to another one of the same repository. */
async function passOnNames({ aliases, source }: StoredCard, others: readonly StoredCard[]): Promise<void> {
  const repository = repositoryOf(source)
  const heir = others.find((other) => repository !== null && repositoryOf(other.source) === repository)
  if (heir === undefined) return
  for (const alias of aliases) if ((await findEntry(alias)) !== undefined) await addAlias(heir, alias)
}

/**
 * Removes the files of another address that only a replaced card used. The cache of Hugging Face is left alone, because
 * other programs and other data folders use it.
 */
export async function removeReplaced(
  replaced: StoredCard,
  { store, cacheRoot }: Pick<RemovalOptions, 'store' | 'cacheRoot'>,
): Promise<void> {
  if (!/^https?:/.test(replaced.source ?? '')) return
  const cards = await storedCards(store)
  for (const path of filesOf(replaced)) {
    if (isWithin(store, path)) await removeFile(path, replaced, cards, { store, cacheRoot })
  }
}

/** @returns the number of freed bytes, or which file stays and why. */
async function removeFile(
  path: string,
  { source }: StoredCard,
  others: readonly StoredCard[],
  { store, cacheRoot }: Pick<RemovalOptions, 'store' | 'cacheRoot'>,
): Promise<number | Kept> {
  const id = repositoryOf(source)
  const isInStore = isWithin(store, path)
  const repository = isInStore || id === null || !isWithin(cacheRoot, path) ? null : new CachedRepository(cacheRoot, id)
  const users = await usersOf(path, others)
  const reason = users.length === 0 ? null : `${users[0]!.id} uses it`
  // Another link to the same bytes is no reason to keep this one.
  const snapshots = repository?.snapshot('') ?? null
  const isOtherLink = (file: string) => file !== path && snapshots !== null && isWithin(snapshots, file)
  if (reason !== null && !users.every(({ file }) => isOtherLink(file))) return { path, reason }
  if (isInStore) {
    const bytes = await sizeOf(path)
    for (const file of [path, incompletePath(path)]) {
      await rm(file, { force: true })
      await rm(journalPath(file), { force: true })
    }
    // It fails if the folder is not empty.
    await rmdir(dirname(path)).catch(() => {})
    return bytes
  }
  const blob = (await repository?.blobOf(path)) ?? null
  if (repository === null || blob === null) return { path, reason: 'it lies outside of the cache' }
  const isShared = (await repository.linkedBlobs(new Set([path]))).has(blob)
  const bytes = await sizeOf(blob)
  // If the file system has no links, the entry is the blob.
  if (!isShared || blob !== path) await rm(path, { force: true })
  if (!isShared) await rm(blob, { force: true })
  await repository.prune()
  if (!isShared) return bytes
  return { path: blob, reason: reason ?? `another snapshot in ${join(repository.folder, 'snapshots')} uses it` }
}

/** The cache's copies of a file from other commits, fetched by Lookout or by another program. */
async function otherCommitsOf(
  path: string,
  { source }: StoredCard,
  others: readonly StoredCard[],
  cacheRoot: string,
): Promise<Kept[]> {
  const id = repositoryOf(source)
  if (id === null || !isWithin(cacheRoot, path)) return []
  const kept: Kept[] = []
  for (const entry of await new CachedRepository(cacheRoot, id).ofOtherCommits(path)) {
    const real = await realOr(entry)
    if ((await usersOf(entry, others)).length > 0) continue
    kept.push({
      path: entry,
      reason: `it is of another commit, which other programs may use; ${formatBytes(await sizeOf(real))}`,
    })
  }
  return kept
}

/** Other models with the same file, and their paths of it. */
async function usersOf(path: string, others: readonly StoredCard[]): Promise<{ id: string; file: string }[]> {
  const real = await realOr(path)
  const users: { id: string; file: string }[] = []
  for (const other of others) {
    for (const file of filesOf(other)) {
      const isSame = relative(file, path) === ''
      if (isSame || (await realOr(file)) === real) users.push({ id: other.ids[0]!, file: isSame ? path : file })
    }
  }
  return users
}

async function sizeOf(path: string): Promise<number> {
  return (await lstat(path).catch(() => null))?.size ?? 0
}
