import { type Family, PLAIN } from './family.ts'

/** It has no notation for where things are. */
export const phi4: Family = {
  ...PLAIN,
  title: 'Phi-4 vision',
  projectors: ['phi4'],
  // Its files say how many tokens.
  image: { patchSize: 16, mergeSize: 1 },
}
