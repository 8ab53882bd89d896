import { GgufTensors, numberType } from '../models/read/gguf-tensors.ts'
import { GgufArray, type GgufValue } from '../models/read/gguf-value.ts'
import type { Weight } from './safetensors.ts'

/** A GGUF file that is exported. Its errors name it. */
export class SourceFile implements AsyncDisposable {
  readonly #path: string
  readonly #tensors: GgufTensors
  readonly #untaken: Set<string>

  private constructor(path: string, tensors: GgufTensors) {
    this.#path = path
    this.#tensors = tensors
    this.#untaken = new Set(tensors.names)
  }

  /** @throws Error */
  static async open(path: string): Promise<SourceFile> {
    return new SourceFile(path, await GgufTensors.open(path))
  }

  get metadata(): ReadonlyMap<string, GgufValue> {
    return new Map([...this.#tensors.fields].map(([key, { value }]) => [key, value]))
  }

  get tensorNames(): readonly string[] {
    return [...this.#tensors.names]
  }

  /** Tensors that `take` was not called for. */
  get untaken(): readonly string[] {
    return [...this.#untaken]
  }

  /** What to throw where the file cannot be exported. */
  error(message: string): Error {
    return new Error(`${this.#path} cannot be exported: ${message}`)
  }

  /** A value of the metadata; undefined where there is none. */
  find(key: string): GgufValue | undefined {
    return this.#tensors.fields.get(key)?.value
  }

  /** @throws Error */
  number(key: string): number {
    const value = this.find(key)
    if (typeof value === 'number') return value
    throw this.error(`its metadata has no number '${key}'`)
  }

  /** @throws Error */
  numbers(key: string): number[] {
    return this.#array(key, (value) => typeof value === 'number')
  }

  /** @throws Error */
  strings(key: string): string[] {
    return this.#array(key, (value) => typeof value === 'string')
  }

  hasTensor(name: string): boolean {
    return this.#tensors.find(name) !== undefined
  }

  /** A tensor under another name. @throws Error where there is none, or one whose type cannot be read. */
  take(name: string, as: string): Weight {
    const tensor = this.#tensors.find(name)
    if (tensor === undefined) throw this.error(`the tensor '${name}' is missing`)
    this.#untaken.delete(name)
    const type = numberType(tensor)
    if (type === null)
      throw this.error(`the tensor '${name}' is quantised; only F32, F16, BF16 and Q8_0 can be exported`)
    return { name: as, type, shape: tensor.shape.toReversed(), read: () => this.#tensors.read(name) }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#tensors[Symbol.asyncDispose]()
  }

  #array<Item extends GgufValue>(key: string, isItem: (value: GgufValue) => value is Item): Item[] {
    const value = this.find(key)
    const items = value instanceof GgufArray ? [...value] : null
    if (items?.every(isItem)) return items
    throw this.error(`its metadata has no list '${key}'`)
  }
}
