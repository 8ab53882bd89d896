import type { Sampling } from './work.ts'

/** Always chooses the likeliest token. */
export const GREEDY: Sampling = { temperature: 0, topP: 1, topK: 0, frequencyPenalty: 0, presencePenalty: 0 }
