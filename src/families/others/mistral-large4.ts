import type { Family } from '../family.ts'
import { mistral } from './mistral.ts'

/** Its files have the marks of Pixtral; its makers document the notation. */
export const mistralLarge4: Family = {
  ...mistral,
  title: 'Mistral Large 4',
  is: ({ name }) => /mistral[-_ ]?large[-_ ]?4/i.test(name),
  dialect: 'mistral-large-4',
}
