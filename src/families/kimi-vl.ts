import type { Family } from './family.ts'

/** Its users see coordinates from 0 to 1, its makers do not say: nothing is read here. */
export const kimiVl: Family = {
  title: 'Kimi-VL, Kimi K2.5',
  projectors: ['kimivl', 'kimik25'],
  architectures: [],
  image: null,
  video: null,
  dialect: null,
  toolSyntax: null,
  thought: null,
}
