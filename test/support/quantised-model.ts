import { copyFile, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { readGguf, type Tensor, TensorType, writeGguf } from './gguf-writer.ts'

const SHIPPED = 'models/lookout-nano'
const BLOCK = 32

/** Writes the shipped model into a folder, with its matrices as Q8_0. @returns the path of its card. */
export async function writeQuantisedModel(folder: string): Promise<string> {
  const card = JSON.parse(await readFile(`${SHIPPED}/card.json`, 'utf8'))
  await quantise(`${SHIPPED}/${card.engine.model}`, join(folder, 'model-q8_0.gguf'))
  await copyFile(`${SHIPPED}/${card.engine.projector}`, join(folder, card.engine.projector))
  card.engine.model = 'model-q8_0.gguf'
  const path = join(folder, 'card.json')
  await writeFile(path, JSON.stringify(card))
  return path
}

/** Copies a model with every f16 matrix as Q8_0: blocks of 32 eight-bit values with one scale each. */
async function quantise(from: string, to: string): Promise<void> {
  const { metadata, tensors } = await readGguf(from)
  const isMatrix = ({ type, shape }: Tensor) => type === TensorType.F16 && shape.length === 2 && shape[0]! % BLOCK === 0
  if (tensors.filter(isMatrix).length <= 20) throw new Error(`${from} has too few matrices of f16.`)
  await writeGguf(to, {
    metadata,
    tensors: tensors.map((tensor) =>
      isMatrix(tensor) ? { ...tensor, type: TensorType.Q8_0, read: () => toQ8(tensor.read()) } : tensor,
    ),
  })
}

function toQ8(halves: Buffer): Buffer {
  const values = new Float16Array(halves.buffer.slice(halves.byteOffset, halves.byteOffset + halves.length))
  const blocks = values.length / BLOCK
  const bytes = Buffer.alloc(blocks * (2 + BLOCK))
  const view = new DataView(bytes.buffer, bytes.byteOffset)
  for (let block = 0; block < blocks; block++) {
    const part = values.subarray(block * BLOCK, (block + 1) * BLOCK)
    const scale = part.reduce((most, value) => Math.max(most, Math.abs(value)), 0) / 127
    const at = block * (2 + BLOCK)
    view.setFloat16(at, scale, true)
    for (const [index, value] of part.entries()) {
      view.setInt8(at + 2 + index, scale === 0 ? 0 : Math.round(value / scale))
    }
  }
  return bytes
}
