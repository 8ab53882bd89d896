import { type Family, PLAIN } from '../family.ts'

/** llama.cpp has no projector for it. It is not a chat model: it detects. */
export const paligemma: Family = {
  ...PLAIN,
  title: 'PaliGemma',
  projectors: [],
  dialect: 'paligemma',
}
