import { createHash } from 'node:crypto'
import { closeSync, openSync, readSync } from 'node:fs'
import koffi from 'koffi'
import type { Llama } from './llama.ts'
import type { Model } from './model.ts'

const READ_BYTES = 2 ** 20

interface AdapterFile {
  readonly name: string
  readonly path: string
  /** Factor of what it adds. */
  readonly scale: number
}

/** A LoRA adapter of a loaded model, beside its weights. It is freed with the model. */
export class Adapter {
  /** Hash of the file and the scale: work with the same adapter has the same numbers. */
  readonly key: string
  /** What the library takes: its address and its scale. */
  readonly native: readonly [addresses: BigUint64Array, scales: Float32Array]

  /** @throws Error for a file that does not fit the model; the library's log says why. */
  constructor(llama: Llama, model: Model, { name, path, scale }: AdapterFile) {
    const handle = llama.adapter_lora_init(model.handle, path)
    if (handle === null) throw new Error(`Cannot load the adapter '${name}' from ${path}.`)
    this.native = [BigUint64Array.of(koffi.address(handle)), Float32Array.of(scale)]
    this.key = hashOf(path).update(`\0${scale}`).digest('hex').slice(0, 24)
  }
}

/** All of a file: it is small beside the model, and two adapters may differ in few bytes. */
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
