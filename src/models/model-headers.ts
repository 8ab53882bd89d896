import { resolve } from 'node:path'
import type { GgufMetadata } from '../families/gguf.ts'
import { CardError } from './card-error.ts'
import { readGgufMetadata } from './gguf.ts'
import type { CardFolder } from './weight-files.ts'

/** The files that a card names. */
export interface NamedFiles {
  readonly model: string
  readonly projector?: string | undefined
}

/** Headers of the files that a card names. Each is read once, and only when it is asked for. */
export class ModelHeaders {
  readonly #files: NamedFiles
  readonly #place: CardFolder
  #language: Promise<GgufMetadata> | null = null
  #encoder: Promise<GgufMetadata> | null = null

  constructor(files: NamedFiles, place: CardFolder) {
    this.#files = files
    this.#place = place
  }

  /** @throws CardError when the file cannot be read. */
  language(): Promise<GgufMetadata> {
    this.#language ??= this.#read('model', this.#files.model)
    return this.#language
  }

  /** Null for a model without encoders. @throws CardError when the file cannot be read. */
  async encoder(): Promise<GgufMetadata | null> {
    const { projector } = this.#files
    if (projector === undefined) return null
    this.#encoder ??= this.#read('projector', projector)
    return this.#encoder
  }

  async #read(field: string, name: string): Promise<GgufMetadata> {
    const path = resolve(this.#place.directory, name)
    return readGgufMetadata(path).catch((error: NodeJS.ErrnoException) => {
      const message =
        error.code === 'ENOENT' ? `the file ${path} does not exist` : `cannot read ${path}: ${error.message}`
      throw new CardError(this.#place.file, `engine.${field}`, message, { cause: error })
    })
  }
}
