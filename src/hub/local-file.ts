import { readdir, realpath, stat } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { mismatch } from '../families/gguf.ts'
import { readAdapterProblem } from '../models/read/model-reader.ts'
import { partNumber, partPaths } from '../models/read/weight-files.ts'
import { type NewCard, type StoredCard, storeCard } from './cache/model-store.ts'
import { checkParts, isProjector, stemOf } from './choice/gguf-names.ts'
import { checkEncoder, checkLanguage, readMetadata } from './choice/header-check.ts'
import type { Metadata } from './choice/memory-estimate.ts'
import { HubError } from './hub-error.ts'

/** A local file of a model or of an encoder. */
export interface LocalFile {
  readonly path: string
  /** Size of all parts, in bytes. */
  readonly bytes: number
  readonly metadata: Metadata
}

/** @throws HubError for a file that is missing, incomplete or broken. */
export async function readLocal(path: string, kind: 'model' | 'projector'): Promise<LocalFile> {
  checkParts(path)
  const part = partNumber(path)
  if (part !== null && part.number !== 1)
    throw new HubError(`${path} is part ${part.number} of ${part.count}: name the first part`)
  let bytes = 0
  let first: Omit<LocalFile, 'bytes'> | undefined
  for (const name of partPaths(resolve(path))) {
    const entry = await stat(name).catch(() => null)
    if (entry?.isDirectory()) throw new HubError(`${name} is a folder: name the GGUF file of the language model in it`)
    if (!entry?.isFile()) throw new HubError(`${name}: there is no such file`)
    bytes += entry.size
    const metadata = await readMetadata(name, entry.size, name)
    first ??= { path: name, metadata }
  }
  if (kind === 'model') checkLanguage(first!.metadata, path)
  else checkEncoder(first!.metadata, path)
  return { ...first!, bytes }
}

/** Names of encoders in the folder of a model that was added without one. */
export async function encodersBeside(model: string): Promise<readonly string[]> {
  const folder = dirname(resolve(model))
  const names = await readdir(folder).catch(() => [])
  return names
    .filter(isProjector)
    .map((name) => join(folder, name))
    .sort()
}

export interface AddedModel extends Required<Pick<NewCard, 'adapters'>> {
  readonly model: string
  readonly projector: string | null
  readonly id: string | null
}

/** Makes a card for files of the user's own. @throws HubError for files that do not belong together. */
export async function addModel(
  store: string,
  { model, projector, id, adapters }: AddedModel,
): Promise<{ readonly card: StoredCard; readonly replaced: StoredCard | null }> {
  const language = await readLocal(model, 'model')
  const encoder = projector === null ? null : await readLocal(projector, 'projector')
  const problem = mismatch({ language: language.metadata, encoder: encoder?.metadata ?? null })
  if (problem !== null) throw new HubError(`${projector} belongs to another model than ${model}: ${problem}`)
  for (const { path } of adapters) {
    const unfit = await readAdapterProblem(path, partPaths(language.path))
    if (unfit !== null) throw new HubError(`${path} cannot be used with ${model}: it ${unfit}`)
  }
  return storeCard(store, {
    id: id ?? stemOf(language.path),
    aliases: [],
    source: `file:${await realpath(language.path)}`,
    model: language.path,
    projector: encoder?.path ?? null,
    adapters,
  })
}
