import { resolve } from 'node:path'
import type { GgufMetadata } from '../../families/gguf.ts'
import { lazy } from '../../lib/lazy.ts'
import { CardError } from '../card-error.ts'
import { runsOnServers, type ServerEngine } from '../server-engines.ts'
import { type FolderHeaders, headersFor } from './hugging-face.ts'
import { readFolder, readMetadata } from './model-reader.ts'
import type { CardFolder } from './weight-files.ts'

/** The files that a card names: those of a local model, a Hugging Face folder for one that runs elsewhere, or none. */
export type NamedFiles =
  | { readonly type?: 'local' | undefined; readonly model: string; readonly projector?: string | undefined }
  | { readonly type: ServerEngine; readonly tokenizer: string }
  | { readonly type: 'openai' }

const NO_HEADER: GgufMetadata = new Map()

export type ModelHeaders = ReturnType<typeof modelHeaders>

/**
 * Headers of the files that a card names. Each is read once, on demand. A Hugging Face folder is read as the headers
 * that GGUF files of the model would have. All throw a CardError when a file cannot be read.
 */
export function modelHeaders(files: NamedFiles, place: CardFolder) {
  /** The headers from a Hugging Face folder; null for other files. */
  const folder = lazy(async (): Promise<FolderHeaders | null> => {
    return runsOnServers(files) ? headersFor(files.type, await readFolder(files.tokenizer, place)) : null
  })
  return {
    folder,
    language: lazy(async (): Promise<GgufMetadata> => {
      if (files.type === 'openai') return NO_HEADER
      return runsOnServers(files) ? (await folder())!.language : readHeader(place, 'model', files.model)
    }),
    /** Null for a model without encoders. */
    encoder: lazy(async (): Promise<GgufMetadata | null> => {
      if (runsOnServers(files)) return (await folder())!.encoder
      if (files.type === 'openai' || files.projector === undefined) return null
      return readHeader(place, 'projector', files.projector)
    }),
  }
}

async function readHeader({ file, directory }: CardFolder, field: string, name: string): Promise<GgufMetadata> {
  const path = resolve(directory, name)
  return readMetadata(path).catch((error: NodeJS.ErrnoException) => {
    const message =
      error.code === 'ENOENT' ? `the file ${path} does not exist` : `cannot read ${path}: ${error.message}`
    const told = error.code === undefined ? `the file cannot be read: ${error.message}` : 'the file cannot be read'
    throw new CardError(file, `engine.${field}`, message, { cause: error, told })
  })
}
