import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { seededRandom } from '../../src/doctor/random.ts'
import { readGguf, type Tensor, TensorType, writeGguf } from './gguf-writer.ts'

const SHIPPED = 'models/lookout-nano'
/** As of a model before its training. */
const LARGEST = 0.1

/**
 * Writes a copy of the shipped model that has learnt nothing: all weights are random, and everything else is as it was.
 * @param card the shipped model's, with changes.
 */
export async function writeRandomModel(folder: string, card: ShippedCard, seed: number): Promise<void> {
  const random = seededRandom(seed)
  await writeFile(join(folder, 'card.json'), JSON.stringify(card))
  for (const name of [card.engine.model, card.engine.projector]) {
    const { metadata, tensors } = await readGguf(`${SHIPPED}/${name}`)
    const randomised = tensors.map((tensor) => ({ ...tensor, read: () => randomBytes(tensor, random) }))
    await writeGguf(join(folder, name), { metadata, tensors: randomised })
  }
}

/** What a card has that is looked at here. */
export interface ShippedCard {
  readonly engine: { readonly model: string; readonly projector: string }
  readonly serves: readonly object[]
}

export async function shippedCard(): Promise<ShippedCard> {
  return JSON.parse(await readFile(`${SHIPPED}/card.json`, 'utf8')) as ShippedCard
}

function randomBytes({ type, shape }: Tensor, random: () => number): Buffer {
  const length = shape.reduce((product, side) => product * side, 1)
  const value = () => (random() * 2 - 1) * LARGEST
  if (type === TensorType.F16) return Buffer.from(new Float16Array(length).map(value).buffer)
  if (type === TensorType.F32) return Buffer.from(new Float32Array(length).map(value).buffer)
  throw new Error(`Tensors of type ${type} are not expected here`)
}
