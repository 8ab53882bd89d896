import { type Family, PLAIN } from '../family.ts'

export const hunyuanVl: Family = {
  ...PLAIN,
  title: 'HunyuanVL, HunyuanOCR',
  projectors: ['hunyuanvl'],
  // libmtmd aborts for a language model with a different type of positions.
  architectures: ['hunyuan_vl'],
  // llama.cpp's limits, for files without any. A token ends every row, and there is one at each end of an image.
  image: { patchSize: 16, mergeSize: 2, minTokens: 256, maxTokens: 16384, rowEnds: true },
}
