import { createHash } from 'node:crypto'
import { stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { basename } from 'node:path/posix'
import { ConfigError } from '../config/config.ts'
import { mismatch } from '../families/gguf.ts'
import { partPaths } from '../models/read/weight-files.ts'
import { cardFolder, filesOf, type NewCard, storedCards, storedKvTypes } from './cache/model-store.ts'
import { isPlainSubpath } from './cache/safe-names.ts'
import { checkParts, stemOf } from './choice/gguf-names.ts'
import { checkEncoder, checkLanguage, readMetadata } from './choice/header-check.ts'
import { estimateMemory } from './choice/memory-estimate.ts'
import { decodedPath, shownAddress } from './choice/model-address.ts'
import { joined, totalOf } from './download/byte-ranges.ts'
import { checkSpace, type FileTarget, isFetched } from './download/fetch-file.ts'
import { ConnectionError } from './download/http-client.ts'
import { readJournal } from './download/journal.ts'
import { RemoteFile } from './download/remote-file.ts'
import { fetchWithProgress } from './fetch-with-progress.ts'
import { HubError } from './hub-error.ts'
import type { LocalFile } from './local-file.ts'
import type { FetchingOptions, PullRequest } from './pull-options.ts'
import { formatBytes } from './units.ts'

/** Fetches a GGUF file from an address into the folder of its card. @returns the contents of the card. */
export async function pullFile(url: URL, request: PullRequest, options: FetchingOptions): Promise<NewCard> {
  if (request.quant !== null) throw new ConfigError('--quant: an address names one file; leave the option out')
  const name = fileName(url)
  const id = request.id ?? stemOf(name)
  const source = `${url.origin}${url.pathname}`
  const known = (await storedCards(options.store)).find(({ ids }) => ids.includes(id))?.source ?? source
  if (request.id === null && known !== source) {
    throw new HubError(
      `${id} was already pulled from ${known}: choose another id with --id, or pass --id ${id} to replace it`,
    )
  }
  const folder = await cardFolder(options.store, id)
  checkParts(name)
  const files = partPaths(name).map((part) => fileAt(withName(url, part), options))
  const model = await fetchFiles(files, folder, options)
  const language = await readMetadata(model.path, model.size, name)
  checkLanguage(language, name)
  const { projector: given } = request
  const projector = given === null || given === 'auto' ? null : await options.outsideProjector(given, folder)
  if (given !== null && given !== 'auto' && projector === null) {
    throw new ConfigError(`--mmproj: expected an https address or a file, not '${shownAddress(given)}'`)
  }
  const problem = mismatch({ language, encoder: projector?.metadata ?? null })
  if (problem !== null)
    throw new HubError(`${shownAddress(given ?? '')} belongs to another model than ${name}: ${problem}`)
  const memory = estimateMemory({
    bytes: model.bytes + (projector?.bytes ?? 0),
    language,
    encoder: projector?.metadata ?? null,
    kvType: (await storedKvTypes(options.store)).get(id),
  })
  if (memory > options.available) {
    options.hub.note(
      `${id} needs about ${formatBytes(memory)} of memory, and ${formatBytes(options.available)} are available; it will be slow, or not load`,
    )
  }
  return { id, aliases: [], source, model: model.path, projector: projector?.path ?? null }
}

/** Fetches an image encoder from an address. */
export async function fetchProjector(url: URL, folder: string, options: FetchingOptions): Promise<LocalFile> {
  const name = fileName(url)
  const { path, size, bytes } = await fetchFiles([fileAt(url, options)], folder, options)
  const metadata = await readMetadata(path, size, name)
  checkEncoder(metadata, name)
  return { path, bytes, metadata }
}

function fileAt(url: URL, { hub }: FetchingOptions): RemoteFile {
  return new RemoteFile(hub.http, {
    url,
    origin: `${url.origin}${url.pathname}`,
    name: fileName(url),
    size: null,
    isHashed: false,
  })
}

/** @returns the first file, with the total size of all. */
async function fetchFiles(files: readonly RemoteFile[], cardFolder: string, options: FetchingOptions) {
  const { hub, report } = options
  const cards = await storedCards(options.store)
  const [first] = files
  /** Whether the folder's card has the file. Earlier versions wrote no journal for it. */
  const isOfCard = (path: string) =>
    cards.some(
      ({ file, source, model, projector }) =>
        dirname(file) === cardFolder &&
        (projector === path || (source === first!.origin && partPaths(model).includes(path))),
    )
  const isUsed = (path: string) => !isOfCard(path) && cards.some((card) => filesOf(card).includes(path))
  const folder = await folderFor(first!, cardFolder, isUsed)
  const targets: (FileTarget & { readonly file: RemoteFile; readonly isHere: boolean })[] = []
  for (const file of files) {
    const path = join(folder, file.name)
    let isOffline = false
    const size = await file.size(hub).catch(async (error: unknown) => {
      const kept = error instanceof ConnectionError ? await wholeSize(path, file.origin, isOfCard(path)) : null
      if (kept === null) throw error
      hub.note(`the server cannot be reached (${(error as Error).message}); using the local file`)
      isOffline = true
      return kept
    })
    const target = { path, size, blob: null, key: file.origin }
    targets.push({ ...target, file, isHere: isOffline || (await isFetched(target, file.validator)) })
  }
  // A broken file is detected before all of it is fetched.
  const [head] = targets
  await readMetadata(head!.isHere ? head!.path : await head!.file.bytes(hub), head!.size, head!.file.name)
  await checkSpace(
    targets.filter(({ isHere }) => !isHere),
    hub.tuning,
  )
  for (const { file, isHere, ...target } of targets) {
    const isNew = !isHere && (await fetchWithProgress(file, target, hub, report))
    if (!isNew) report({ type: 'found', file: file.name, path: target.path })
  }
  const bytes = targets.reduce((sum, { size }) => sum + size, 0)
  return { path: head!.path, size: head!.size, bytes }
}

/** The size of a file that an earlier pull has completely fetched from this address; null if there is none. */
async function wholeSize(path: string, origin: string, isOfCard: boolean): Promise<number | null> {
  const kept = await readJournal(path)
  const size = (await stat(path).catch(() => null))?.size ?? null
  if (kept === null) return isOfCard ? size : null
  return kept.key === origin && kept.size === size && totalOf(joined(kept.done)) === size ? size : null
}

/** Files of two addresses may have the same name: the later one goes into a subfolder. */
async function folderFor(
  { name, origin }: RemoteFile,
  cardFolder: string,
  isUsed: (path: string) => boolean,
): Promise<string> {
  const own = join(cardFolder, createHash('sha256').update(origin).digest('hex').slice(0, 8))
  if ((await readJournal(join(own, name)))?.key === origin) return own
  const plain = join(cardFolder, name)
  if ((await stat(plain).catch(() => null)) === null) return cardFolder
  const journal = await readJournal(plain)
  // Without a journal or a card, a pull was interrupted.
  const isTaken = journal === null ? isUsed(plain) : journal.key !== origin
  return isTaken ? own : cardFolder
}

function fileName(url: URL): string {
  const name = decodedPath(basename(url.pathname))
  if (isPlainSubpath(name) && !name.includes('/') && /\.gguf$/i.test(name)) return name
  throw new ConfigError(`'${url.origin}${url.pathname}' does not lead to a .gguf file`)
}

function withName(url: URL, name: string): URL {
  const other = new URL(url)
  other.pathname = `${url.pathname.slice(0, url.pathname.lastIndexOf('/') + 1)}${encodeURIComponent(name)}`
  return other
}
