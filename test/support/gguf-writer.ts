import { readFile } from 'node:fs/promises'
import { type GgufField, parseGguf } from '../../src/models/read/gguf.ts'
import { type Tensor, tensorBytes } from '../../src/models/read/gguf-writer.ts'

export * from '../../src/models/read/gguf-writer.ts'

/** A model's file, to write another one like it. */
export interface GgufFile {
  readonly metadata: ReadonlyMap<string, GgufField>
  readonly tensors: readonly Tensor[]
}

export async function readGguf(path: string): Promise<GgufFile> {
  const file = await readFile(path)
  const { fields, tensors } = parseGguf(file)
  return {
    metadata: fields,
    tensors: tensors.map(({ offset, ...tensor }) => ({
      ...tensor,
      read: () => file.subarray(offset, offset + tensorBytes(tensor)),
    })),
  }
}
