import type { Family } from './family.ts'

/** It reads pages, and has no notation for where other things are. */
export const lightOnOcr: Family = {
  title: 'LightOnOCR',
  projectors: ['lightonocr'],
  architectures: [],
  image: null,
  video: null,
  dialect: null,
  toolSyntax: null,
  thought: null,
}
