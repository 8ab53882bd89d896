import { stat } from 'node:fs/promises'
import { basename, resolve } from 'node:path'
import { CardError } from './card-error.ts'

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
  for (const part of partsOf(path)) {
    const found = await stat(part).catch(() => null)
    if (!found?.isFile()) throw new CardError(file, field, `the file ${part} does not exist`)
    bytes += found.size
  }
  return { path, bytes }
}

const FIRST_PART = /^(?<stem>.*)-00001-of-(?<count>\d{5})\.gguf$/s

/** All parts of a file. Large models are split, and the card names the first part: `name-00001-of-00003.gguf`. */
export function partsOf(path: string): string[] {
  const numbered = FIRST_PART.exec(path)?.groups
  if (numbered === undefined) return [path]
  return Array.from(
    { length: Number(numbered.count) },
    (_, i) => `${numbered.stem}-${String(i + 1).padStart(5, '0')}-of-${numbered.count}.gguf`,
  )
}

/** What a file of weights is called, without its ending and the number of its part. */
export function nameOfWeights(path: string): string {
  const name = basename(path)
  return FIRST_PART.exec(name)?.groups?.stem ?? name.replace(/\.gguf$/i, '')
}
