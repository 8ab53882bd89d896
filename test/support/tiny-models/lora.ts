import { float32, string, type Tensor, TensorType, type WrittenFile } from '../gguf-writer.ts'
import { normalNumbers } from './random-numbers.ts'

const RANK = 4
const ALPHA = 8

interface LoraOptions {
  readonly seed: string
  /** Which matrices it changes, those of experts included; all but norms by default. */
  readonly changes?: (name: string) => boolean
  readonly type?: 'F32' | 'F16'
}

/** A LoRA adapter with random numbers, in llama.cpp's form, whose changes are about as large as the weights. */
export function loraOf(model: WrittenFile, { seed, changes = () => true, type = 'F32' }: LoraOptions): WrittenFile {
  const tensors: Tensor[] = []
  const add = (name: string, shape: readonly number[], deviation: number) => {
    const normal = normalNumbers(`${seed} ${name}`)
    const values = new Float32Array(sizeOf(shape)).map(() => deviation * normal())
    const read = () => Buffer.from((type === 'F16' ? Float16Array.from(values) : values).buffer)
    tensors.push({ name, shape, type: TensorType[type], read })
  }
  for (const { name, shape } of model.tensors) {
    if (shape.length < 2 || !name.endsWith('.weight') || !changes(name)) continue
    const [inputs, outputs, ...experts] = shape as [number, number, ...number[]]
    const isOfTokens = name === 'token_embd.weight'
    const a = isOfTokens ? [RANK, outputs] : [inputs, RANK, ...experts]
    add(`${name}.lora_a`, a, isOfTokens ? 0.3 : 1 / Math.sqrt(inputs))
    add(`${name}.lora_b`, isOfTokens ? [RANK, inputs] : [RANK, outputs, ...experts], 0.3)
  }
  const metadata = new Map([
    ['general.type', string('adapter')],
    ['general.architecture', model.metadata.get('general.architecture')!],
    ['adapter.type', string('lora')],
    ['adapter.lora.alpha', float32(ALPHA)],
  ])
  return { metadata, tensors }
}

const sizeOf = (shape: readonly number[]) => shape.reduce((size, side) => size * side, 1)

/** The model, all of F32, with what an adapter adds in its weights. @param scale of the adapter. */
export function mergedModel(model: WrittenFile, adapter: WrittenFile, scale = 1): WrittenFile {
  const changes = new Map(adapter.tensors.map((tensor) => [tensor.name, floatsOf(tensor)]))
  const tensors = model.tensors.map((tensor): Tensor => {
    const { name, shape } = tensor
    const [a, b] = [changes.get(`${name}.lora_a`), changes.get(`${name}.lora_b`)]
    if (a === undefined || b === undefined) return tensor
    const [inputs, outputs] = shape as [number, number]
    const isOfTokens = name === 'token_embd.weight'
    const factor = (scale * ALPHA) / RANK
    const weights = floatsOf(tensor).map((weight, at) => {
      const [input, row] = [at % inputs, Math.floor(at / inputs)]
      // Experts follow one another.
      const [output, expert] = [row % outputs, Math.floor(row / outputs)]
      let change = 0
      for (let rank = 0; rank < RANK; rank++)
        change += isOfTokens
          ? a[output * RANK + rank]! * b[input * RANK + rank]!
          : b[row * RANK + rank]! * a[(expert * RANK + rank) * inputs + input]!
      return weight + factor * change
    })
    if (weights.length !== sizeOf(shape)) throw new Error(`${name} is not of F32.`)
    return { ...tensor, read: () => Buffer.from(weights.buffer) }
  })
  return { ...model, tensors }
}

function floatsOf({ type, read }: Tensor): Float32Array {
  const bytes = new Uint8Array(read()).buffer
  return type === TensorType.F16 ? Float32Array.from(new Float16Array(bytes)) : new Float32Array(bytes)
}
