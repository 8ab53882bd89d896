import { type Family, PLAIN } from '../family.ts'

/** Google documents no notation for boxes. Its models use that of Gemini. The prompt determines how they call tools. */
export const gemma3: Family = {
  ...PLAIN,
  title: 'Gemma 3',
  projectors: ['gemma3'],
  architectures: ['gemma3'],
  // The 4B model. Those of 270M and 1B have 18 and 26 layers and are text-only.
  fewestLayers: 34,
  // Every image is a square of 896 pixels.
  image: { patchSize: 14, mergeSize: 4, minTokens: 256, maxTokens: 256, square: true },
  dialect: 'gemma',
}
