import { type Family, PLAIN } from '../family.ts'

/**
 * From Perceptron, the makers of the notation `markup`: coordinates from 0 to 1000, requested by a hint such as
 * `<hint>BOX</hint>`. llama.cpp has no projector for it. The limits are vLLM's, 256 to 6,144 patches.
 */
export const isaac: Family = {
  ...PLAIN,
  title: 'Isaac',
  projectors: [],
  image: { patchSize: 16, mergeSize: 2, minTokens: 64, maxTokens: 1536 },
  dialect: 'markup',
}
