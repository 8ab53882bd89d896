import { open } from 'node:fs/promises'
import { countOf, NUMBER_BYTES, type NumberType } from '../models/read/gguf-tensors.ts'

/** A tensor in the form of Hugging Face's models. */
export interface Weight {
  readonly name: string
  readonly type: NumberType
  /** Outermost dimension first. */
  readonly shape: readonly number[]
  /** The values, row by row, little-endian. */
  read(): Promise<Buffer>
}

const HEADER_ALIGNMENT = 8

/**
 * Writes a safetensors file: the length of a JSON header, the header, the values. Tensors are read one at a time.
 * https://huggingface.co/docs/safetensors/index#format
 */
export async function writeSafetensors(path: string, weights: readonly Weight[], signal: AbortSignal): Promise<void> {
  // The widest numbers come first, so that each tensor is aligned to the size of its numbers.
  const ordered = weights.toSorted((a, b) => NUMBER_BYTES[b.type] - NUMBER_BYTES[a.type])
  const header: Record<string, unknown> = { __metadata__: { format: 'pt' } }
  let end = 0
  for (const { name, type, shape } of ordered) {
    const begin = end
    end += countOf(shape) * NUMBER_BYTES[type]
    header[name] = { dtype: type, shape, data_offsets: [begin, end] }
  }
  const json = Buffer.from(JSON.stringify(header))
  const padded = Buffer.alloc(Math.ceil(json.length / HEADER_ALIGNMENT) * HEADER_ALIGNMENT, ' ')
  json.copy(padded)
  const length = Buffer.alloc(8)
  length.writeBigUInt64LE(BigInt(padded.length))
  await using file = await open(path, 'wx')
  await file.writeFile(length)
  await file.writeFile(padded)
  for (const weight of ordered) {
    signal.throwIfAborted()
    await file.writeFile(await weight.read())
  }
}
