import { type ByteSource, type GgufHeader, readGgufHeader } from '../models/gguf.ts'
import { HubError } from './hub-error.ts'
import type { Metadata } from './memory-estimate.ts'

/**
 * Reads the header of a GGUF file, here or on a server, and checks that the file can hold the tensors that it lists.
 * @param shown the file, for errors.
 * @throws HubError for a file that is broken or something else.
 */
export async function readMetadata(from: string | ByteSource, size: number, shown: string): Promise<Metadata> {
  let header: GgufHeader
  try {
    header = await readGgufHeader(from)
  } catch (error) {
    if (!(error instanceof Error) || !/^the file /.test(error.message)) throw error
    throw new HubError(`${shown} cannot be used: ${error.message}. Get another copy or another file`, { cause: error })
  }
  const end = header.tensors.reduce((most, { offset }) => Math.max(most, offset), 0)
  if (end > size) {
    throw new HubError(`${shown} cannot be used: it ends before its last tensor begins. Get another copy`)
  }
  return new Map([...header.fields].map(([key, { value }]) => [key, value]))
}

/** @throws HubError for what is no language model. */
export function checkLanguage(language: Metadata, shown: string): void {
  const architecture = language.get('general.architecture')
  if (architecture === 'clip') {
    throw new HubError(
      `${shown} is an image encoder, not a language model: name the model, and give this file with --mmproj`,
    )
  }
  if (typeof architecture !== 'string' || !language.has('tokenizer.ggml.tokens')) {
    throw new HubError(`${shown} is not a language model: name another file`)
  }
}

/** @throws HubError for what is no encoder. */
export function checkEncoder(encoder: Metadata, shown: string): void {
  if (encoder.get('general.architecture') === 'clip') return
  throw new HubError(`${shown} is no image or audio encoder (mmproj): name another file with --mmproj`)
}
