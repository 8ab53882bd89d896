import { architectureProblem } from '../../families/llama-cpp-names.ts'
import { ProcessEnded } from '../../lib/guarded/guarded-process.ts'
import { kvCost } from '../../models/derive/kv-cost.ts'
import type { ByteSource } from '../../models/read/gguf.ts'
import { readCheckedMetadata } from '../../models/read/model-reader.ts'
import { HubError } from '../hub-error.ts'
import type { Metadata } from './memory-estimate.ts'

/**
 * Reads the header of a GGUF file, here or on a server, and checks that the file can hold the tensors that it lists.
 * @param shown name of the file for errors.
 * @throws HubError for a file that is broken or something else.
 */
export async function readMetadata(from: string | ByteSource, size: number, shown: string): Promise<Metadata> {
  try {
    return await readCheckedMetadata(from, size)
  } catch (error) {
    if (error instanceof ProcessEnded) {
      throw new HubError(`${shown} cannot be used: its header cannot be read, ${error.message}`, { cause: error })
    }
    if (!(error instanceof Error) || !/^the file/.test(error.message)) throw error
    throw new HubError(`${shown} cannot be used: ${error.message}. Get another copy or another file`, { cause: error })
  }
}

/** @throws HubError if the file is no language model. */
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
  const problem = architectureProblem(architecture)
  if (problem !== null) throw new HubError(`${shown} cannot be used: its architecture '${architecture}' ${problem}`)
  try {
    kvCost(language)
  } catch (error) {
    throw new HubError(`${shown} cannot be used: ${(error as Error).message}`, { cause: error })
  }
}

/** @throws HubError if the file is no encoder. */
export function checkEncoder(encoder: Metadata, shown: string): void {
  if (encoder.get('general.architecture') === 'clip') return
  throw new HubError(`${shown} is not an image or audio encoder (mmproj): name another file with --mmproj`)
}
