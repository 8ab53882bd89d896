import type { Family } from './family.ts'

/** Images are cut into slices. Boxes are `<box>x1 y1 x2 y2</box>` without a name, which is not read here. */
export const miniCpmV: Family = {
  title: 'MiniCPM-V',
  projectors: ['resampler', 'minicpmv4_6'],
  architectures: [],
  image: null,
  video: null,
  dialect: null,
  toolSyntax: null,
  thought: null,
}
