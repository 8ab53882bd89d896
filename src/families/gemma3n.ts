import type { Family } from './family.ts'
import { gemma3 } from './gemma3.ts'

/** Its encoder resizes images itself, to a size that is not known here. */
export const gemma3n: Family = {
  ...gemma3,
  title: 'Gemma 3n',
  projectors: ['gemma3nv'],
  architectures: ['gemma3n'],
  image: null,
}
