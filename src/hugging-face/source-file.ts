import { type FileHandle, open } from 'node:fs/promises'
import { type GgufHeader, type GgufTensor, metadataOf, readGgufHeader } from '../models/read/gguf.ts'
import { numberType, readTensor } from '../models/read/gguf-tensors.ts'
import { GgufArray, type GgufValue } from '../models/read/gguf-value.ts'
import { partsOf } from '../models/read/weight-files.ts'
import type { Weight } from './safetensors.ts'

/** A GGUF file to export, in one or several parts. Its errors name it. */
export type SourceFile = Awaited<ReturnType<typeof openSource>>

/**
 * @param path of the file, or of the first of several.
 * @throws Error that names the file, and says why it cannot be read.
 */
export async function openSource(path: string) {
  await using opening = new AsyncDisposableStack()
  const tensors = new Map<string, { readonly tensor: GgufTensor; readonly file: FileHandle; readonly part: string }>()
  let first: GgufHeader | undefined
  for (const part of partsOf(path)) {
    const header = await readGgufHeader(part).catch((cause: Error) => {
      throw new Error(`${part}: ${cause.message}`, { cause })
    })
    const file = opening.use(await open(part))
    first ??= header
    for (const tensor of header.tensors) tensors.set(tensor.name, { tensor, file, part })
  }
  const metadata = metadataOf(first!.fields)
  const untaken = new Set(tensors.keys())
  const files = opening.move()

  /** The error for a file that cannot be exported. */
  const error = (message: string) => new Error(`${path} cannot be exported: ${message}`)
  const list = <Item extends GgufValue>(key: string, isItem: (value: GgufValue) => value is Item): Item[] => {
    const value = metadata.get(key)
    const items = value instanceof GgufArray ? [...value] : null
    if (items?.every(isItem)) return items
    throw error(`its metadata has no list '${key}'`)
  }
  return {
    metadata,
    error,
    tensorNames: [...tensors.keys()],
    /** Tensors that have not been taken. */
    get untaken(): readonly string[] {
      return [...untaken]
    },
    /** A value of the metadata; undefined if absent. */
    find: (key: string) => metadata.get(key),
    /** @throws Error */
    number(key: string): number {
      const value = metadata.get(key)
      if (typeof value === 'number') return value
      throw error(`its metadata has no number '${key}'`)
    },
    /** @throws Error */
    numbers: (key: string) => list(key, (value) => typeof value === 'number'),
    /** @throws Error */
    strings: (key: string) => list(key, (value) => typeof value === 'string'),
    hasTensor: (name: string) => tensors.has(name),
    /**
     * A tensor, renamed.
     * @throws Error if it is missing, or its type cannot be read.
     */
    take(name: string, as: string): Weight {
      const found = tensors.get(name)
      if (found === undefined) throw error(`the tensor '${name}' is missing`)
      untaken.delete(name)
      const { tensor, file, part } = found
      const type = numberType(tensor)
      if (type === null) throw error(`the tensor '${name}' is quantised; only F32, F16, BF16 and Q8_0 can be exported`)
      return { name: as, type, shape: tensor.shape.toReversed(), read: () => readTensor(file, tensor, part) }
    },
    [Symbol.asyncDispose]: () => files.disposeAsync(),
  }
}
