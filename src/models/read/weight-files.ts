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
  let bytes = 0
  if (partCount(path) > MAX_PARTS) {
    throw new CardError(file, field, `names a file in ${partCount(path)} parts; at most ${MAX_PARTS} are supported`)
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

const FIRST_PART = /^(?<stem>.*)-00001-of-(?<count>\d{5})\.gguf$/s

/** Known models have some hundred parts at most. */
export const MAX_PARTS = 1000

/** Number of parts that a file's name promises. */
function partCount(path: string): number {
  return Number(FIRST_PART.exec(path)?.groups?.count ?? 1)
}

/**
 * The parts of a file. Large models are split, and the card names the first part: `name-00001-of-00003.gguf`. Of one in
 * more parts than any has, the first ones.
 */
export function partsOf(path: string): string[] {
  const numbered = FIRST_PART.exec(path)?.groups
  if (numbered === undefined) return [path]
  return Array.from(
    { length: Math.min(Number(numbered.count), MAX_PARTS) },
    (_, i) => `${numbered.stem}-${String(i + 1).padStart(5, '0')}-of-${numbered.count}.gguf`,
  )
}

/** What a file of weights is called, without its ending and the number of its part. */
export function nameOfWeights(path: string): string {
  const name = basename(path)
  return FIRST_PART.exec(name)?.groups?.stem ?? name.replace(/\.gguf$/i, '')
}
