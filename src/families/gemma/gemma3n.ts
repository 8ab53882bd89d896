import type { Family } from '../family.ts'
import { gemma3 } from './gemma3.ts'

/** llama.cpp lacks its audio encoder (`gemma3na`). */
export const gemma3n: Family = {
  ...gemma3,
  title: 'Gemma 3n',
  projectors: ['gemma3nv'],
  architectures: ['gemma3n'],
  // A square of 768 pixels in 16 x 16 tokens. The "patch size" in its files is 768 / 256, which is not a patch size.
  image: { patchSize: 48, mergeSize: 1, minTokens: 256, maxTokens: 256, square: true, along: 16 },
}
