import type { Family } from './family.ts'

export const mistral: Family = {
  title: 'Mistral, Pixtral',
  projectors: ['pixtral'],
  architectures: [],
  // libmtmd's least tokens. The longest edge is 1024 pixels in Pixtral 12B, 1540 in Mistral Small 3.1.
  image: { patchSize: 16, mergeSize: 1, minTokens: 8, longestEdge: 'most', rowEnds: true },
  video: null,
  dialect: null,
  toolSyntax: 'mistral',
  printedTokens: ['[TOOL_CALLS]', '[ARGS]'],
  thought: null,
}
