import { createHash } from 'node:crypto'
import { closeSync, openSync, readSync } from 'node:fs'
import koffi from 'koffi'
import type { Llama } from './llama.ts'
import type { Model } from './model.ts'

const READ_BYTES = 2 ** 20

interface AdapterFile {
  readonly name: string
  readonly path: string
  /** Factor of the adapter's contribution. */
  readonly scale: number
}

/** A LoRA adapter, loaded beside its model's weights. It is freed with the model. */
export class Adapter {
  /** Hash of the file and the scale: adapters with the same key give the same numbers. */
  readonly key: string
  /** Arguments for the library: its address and its scale. */
  readonly native: readonly [addresses: BigUint64Array, scales: Float32Array]

  /** @throws Error for a file that does not fit the model; the library's log says why. */
  constructor(llama: Llama, model: Model, { name, path, scale }: AdapterFile) {
    const handle = llama.adapter_lora_init(model.handle, path)
    if (handle === null) throw new Error(`Cannot load the adapter '${name}' from ${path}.`)
    this.native = [BigUint64Array.of(koffi.address(handle)), Float32Array.of(scale)]
    this.key = hashOf(path).update(`\0${scale}`).digest('hex').slice(0, 24)
  }
}

/** Hashes the whole file: it is small compared to the model, and two adapters may differ in a few bytes. */
function hashOf(path: string) {
  const hash = createHash('sha256')
  const buffer = Buffer.allocUnsafe(READ_BYTES)
  const file = openSync(path, 'r')
  try {
    for (let length = readSync(file, buffer); length > 0; length = readSync(file, buffer))
      hash.update(buffer.subarray(0, length))
  } finally {
    closeSync(file)
  }
  return hash
}
