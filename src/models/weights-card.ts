import { readdir } from 'node:fs/promises'
import { basename, dirname } from 'node:path'
import type { WrittenCard } from './written-card.ts'

/** Whether a path is that of a GGUF file and not of a card. */
export function isWeights(path: string): boolean {
  return /\.gguf$/i.test(path)
}

/** Encoders suffer more from few bits than language models, and BF16 is slow on older processors. */
const PRECISIONS = [/[-_.]f16[-_.]/i, /[-_.]bf16[-_.]/i, /[-_.]q8_0[-_.]/i, /[-_.]f32[-_.]/i]

/** The card of a model that has only weights, with the encoder beside them. */
export async function cardOfWeights(path: string): Promise<WrittenCard> {
  const names = await readdir(dirname(path)).catch(() => [])
  const encoders = names.filter((name) => isWeights(name) && /mmproj/i.test(name) && name !== basename(path)).sort()
  const preferred = PRECISIONS.map((precision) => encoders.find((name) => precision.test(name))).find(Boolean)
  const projector = preferred ?? encoders[0]
  return { engine: { model: basename(path), ...(projector === undefined ? {} : { projector }) } }
}
