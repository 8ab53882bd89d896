import { type Family, PLAIN } from '../family.ts'

/** Images are cut into tiles. Other makers' models also have the architecture `llama`, so it identifies nothing. */
export const llama: Family = {
  ...PLAIN,
  title: 'Llama 3.1 and later',
  projectors: ['llama4'],
  architectures: ['llama4'],
  // Grids of up to 3 x 3 tiles; libmtmd's fixed limit.
  image: { patchSize: 14, mergeSize: 2, tiles: { grid: 'listed', along: 3 } },
  toolSyntax: 'llama3',
  warning: 'llama.cpp itself warns that it shows images to Llama 4 with degraded quality (its pull request 13282)',
}
