import type { Family } from '../family.ts'
import { mistral } from './mistral.ts'

/** It has the files of Pixtral, and a notation that its makers document. */
export const mistralLarge4: Family = {
  ...mistral,
  title: 'Mistral Large 4',
  is: ({ name }) => /mistral[-_ ]?large[-_ ]?4/i.test(name),
  dialect: 'mistral-large-4',
}
