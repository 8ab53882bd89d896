import { resolve } from 'node:path'
import type { GgufMetadata } from '../../families/gguf.ts'
import { CardError } from '../card-error.ts'
import { runsOnServers, type ServerEngine } from '../server-engines.ts'
import { type FolderHeaders, headersFor } from './hugging-face.ts'
import { readFolder, readMetadata } from './model-reader.ts'
import type { CardFolder } from './weight-files.ts'

/** The files that a card names: those of a local model, a folder of Hugging Face for one that runs elsewhere, or none. */
export type NamedFiles =
  | { readonly type?: 'local' | undefined; readonly model: string; readonly projector?: string | undefined }
  | { readonly type: ServerEngine; readonly tokenizer: string }
  | { readonly type: 'openai' }

const NO_HEADER: GgufMetadata = new Map()

/**
 * Headers of the files that a card names. Each is read once, and only when it is asked for. A folder of Hugging Face is read
 * as the headers that GGUF files of the model would have.
 */
export class ModelHeaders {
  readonly #files: NamedFiles
  readonly #place: CardFolder
  #language: Promise<GgufMetadata> | null = null
  #encoder: Promise<GgufMetadata> | null = null
  #folder: Promise<FolderHeaders> | null = null

  constructor(files: NamedFiles, place: CardFolder) {
    this.#files = files
    this.#place = place
  }

  /** @throws CardError when the file cannot be read. */
  language(): Promise<GgufMetadata> {
    const files = this.#files
    if (files.type === 'openai') return Promise.resolve(NO_HEADER)
    this.#language ??= runsOnServers(files)
      ? this.#readFolder(files).then(({ language }) => language)
      : this.#read('model', files.model)
    return this.#language
  }

  /** Null for a model without encoders. @throws CardError when the file cannot be read. */
  async encoder(): Promise<GgufMetadata | null> {
    const files = this.#files
    if (runsOnServers(files)) return (await this.#readFolder(files)).encoder
    if (files.type === 'openai' || files.projector === undefined) return null
    this.#encoder ??= this.#read('projector', files.projector)
    return this.#encoder
  }

  /** What a folder of Hugging Face says of the model's media; null for other files. @throws CardError when it cannot be read. */
  async folder(): Promise<FolderHeaders | null> {
    return runsOnServers(this.#files) ? this.#readFolder(this.#files) : null
  }

  #readFolder({ type, tokenizer }: Extract<NamedFiles, { type: ServerEngine }>): Promise<FolderHeaders> {
    this.#folder ??= readFolder(tokenizer, this.#place).then((headers) => headersFor(type, headers))
    return this.#folder
  }

  async #read(field: string, name: string): Promise<GgufMetadata> {
    const path = resolve(this.#place.directory, name)
    return readMetadata(path).catch((error: NodeJS.ErrnoException) => {
      const message =
        error.code === 'ENOENT' ? `the file ${path} does not exist` : `cannot read ${path}: ${error.message}`
      const told = error.code === undefined ? `the file cannot be read: ${error.message}` : 'the file cannot be read'
      throw new CardError(this.#place.file, `engine.${field}`, message, { cause: error, told })
    })
  }
}
