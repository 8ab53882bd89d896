import { type Family, PLAIN } from '../family.ts'

export const hunyuanVl: Family = {
  ...PLAIN,
  title: 'HunyuanVL, HunyuanOCR',
  projectors: ['hunyuanvl'],
  // With a language model of another kind of positions, libmtmd ends the process.
  architectures: ['hunyuan_vl'],
  // llama.cpp's limits, for files that have none. A token ends every row, and one stands at either end of an image.
  image: { patchSize: 16, mergeSize: 2, minTokens: 256, maxTokens: 16384, rowEnds: true },
}
