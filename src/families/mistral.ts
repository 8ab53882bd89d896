import type { Family } from './family.ts'

/** A token ends every row of an image, so that an image costs more tokens than its squares. */
export const mistral: Family = {
  title: 'Mistral, Pixtral',
  projectors: ['pixtral'],
  architectures: [],
  image: null,
  video: null,
  dialect: null,
  toolSyntax: 'mistral',
  printedTokens: ['[TOOL_CALLS]', '[ARGS]'],
  thought: null,
}
