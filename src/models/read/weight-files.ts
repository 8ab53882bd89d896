import { stat } from 'node:fs/promises'
import { basename, resolve } from 'node:path'
import { CardError } from '../card-error.ts'

export interface ModelFile {
  readonly path: string
  /** Size of all parts together, when the file is the first of several. */
  readonly bytes: number
}

/** Where a card is. */
export interface CardFolder {
  readonly file: string
  readonly directory: string
}

/**
 * Finds a file that a card names, with all its parts.
 * @param field of the card, for the error.
 * @throws CardError for a missing file.
 */
export async function findWeights({ file, directory }: CardFolder, field: string, name: string): Promise<ModelFile> {
  const path = resolve(directory, name)
  const count = isFirstPart(path) ? partNumber(path)!.count : 1
  let bytes = 0
  if (count > MAX_PARTS) {
    throw new CardError(file, field, `names a file in ${count} parts; at most ${MAX_PARTS} are supported`)
  }
  for (const part of partsOf(path)) {
    const found = await stat(part).catch(() => null)
    if (!found?.isFile()) {
      const told = `the file ${basename(part)} does not exist`
      throw new CardError(file, field, `the file ${part} does not exist`, { told })
    }
    bytes += found.size
  }
  return { path, bytes }
}

const PART = /^(?<stem>.*)-(?<number>\d{5})-of-(?<count>\d{5})\.gguf$/is

/** Known models have some hundred parts at most. */
export const MAX_PARTS = 1000

interface PartNumber {
  /** The path before the number. */
  readonly stem: string
  /** From 1. */
  readonly number: number
  readonly count: number
}

/** Null for a path that is not that of a part. */
export function partNumber(path: string): PartNumber | null {
  const groups = PART.exec(path)?.groups
  return groups === undefined
    ? null
    : { stem: groups.stem!, number: Number(groups.number), count: Number(groups.count) }
}

/** The parts of a model, given the path of one of them; only the first `MAX_PARTS` if the name claims more. */
export function partPaths(path: string): string[] {
  const part = partNumber(path)
  if (part === null || part.count === 0) return [path]
  const digits = (value: number) => String(value).padStart(5, '0')
  return Array.from(
    { length: Math.min(part.count, MAX_PARTS) },
    (_, i) => `${part.stem}-${digits(i + 1)}-of-${digits(part.count)}.gguf`,
  )
}

/** The parts of a file. Large models are split, and the card names the first part: `name-00001-of-00003.gguf`. */
export function partsOf(path: string): string[] {
  return isFirstPart(path) ? partPaths(path) : [path]
}

/** The name of a weights file, without its extension and part number. */
export function nameOfWeights(path: string): string {
  const name = basename(path)
  return isFirstPart(name) ? partNumber(name)!.stem : name.replace(/\.gguf$/i, '')
}

function isFirstPart(path: string): boolean {
  return partNumber(path)?.number === 1 && path.endsWith('.gguf')
}
