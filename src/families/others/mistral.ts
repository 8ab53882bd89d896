import { type Family, PLAIN } from '../family.ts'

export const mistral: Family = {
  ...PLAIN,
  title: 'Mistral, Pixtral',
  projectors: ['pixtral'],
  // libmtmd's minimum tokens. The longest edge is 1024 pixels in Pixtral 12B, 1540 in Mistral Small 3.1.
  image: { patchSize: 16, mergeSize: 1, minTokens: 8, longestEdge: 'most', rowEnds: true },
  toolSyntax: 'mistral',
  printedTokens: ['[TOOL_CALLS]', '[ARGS]'],
}
